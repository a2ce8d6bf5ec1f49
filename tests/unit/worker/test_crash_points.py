"""Points at which a process can be made to die: where they stand, and that they are nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from retinue.store.call import CommandCall, RunKey
from retinue.store.operations.running import hand_back
from retinue.store.replies import Fence
from retinue.store.store import AsyncStore
from retinue.worker import crash_points
from retinue.worker.crash_points import CrashPoint

RUN = RunKey("_", "sa-p07-" + "a" * 26)


class Link:
    """A store that answers everything alike."""

    def __init__(self) -> None:
        self.sent = 0

    async def execute(self, *args: object) -> str:
        self.sent += 1
        return "OK"

    async def evalsha(self, *args: object) -> list[bytes]:
        self.sent += 1
        return [b"STALE"]


@pytest.fixture
def arm(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Names a point in the environment, as whoever starts the process does."""

    def name(text: str) -> None:
        monkeypatch.setenv(crash_points.VARIABLE, text)
        crash_points.armed.cache_clear()

    crash_points.armed.cache_clear()
    yield name
    crash_points.armed.cache_clear()


class Deaths(CrashPoint):
    """A point that notes when it would have killed."""

    def __init__(self, text: str) -> None:
        super().__init__(text, die=lambda: self.at.append(self.passed))
        self.at: list[int] = []
        self.passed = 0


def test_a_point_strikes_before_or_after_what_is_done_there_and_once() -> None:
    cases = {"before-tool": [0], "after-tool": [1], "before-tool:2": [1], "after-tool:3": [3]}
    for text, expected in cases.items():
        point = Deaths(text)
        for _ in range(4):
            with point.passing("tool"):
                point.passed += 1
            with point.passing("model"):
                pass
        assert point.at == expected, text


def test_what_fails_has_no_point_after_it() -> None:
    point = Deaths("after-tool")
    with pytest.raises(KeyError), point.passing("tool"):
        raise KeyError("a")
    assert point.at == []


@pytest.mark.usefixtures("arm")
def test_without_the_variable_nothing_stands_in_the_way() -> None:
    async def work() -> None:
        """Nothing."""

    link: Any = Link()
    assert crash_points.mortal("tool", work) is work
    assert crash_points.mortal_model(link) is link
    assert crash_points.mortal_wakes(link) is link
    assert type(crash_points.mortal_store(link)) is AsyncStore


async def test_the_points_of_a_store_bear_the_names_of_its_scripts(
    arm: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    arm("after-hand_back")
    link, deaths = Link(), list[int]()
    monkeypatch.setattr(crash_points.armed(), "_die", lambda: deaths.append(link.sent))
    store = crash_points.mortal_store(link)

    await store.run(CommandCall(("PING",), str))
    await store.run(hand_back(RUN, Fence(1, "token"), "token:1"))

    assert deaths == [2]


def test_the_variable_is_not_handed_on_to_what_the_process_starts(
    arm: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    arm("before-tool")
    assert crash_points.armed() is crash_points.armed()
    with pytest.raises(KeyError):
        monkeypatch.delenv(crash_points.VARIABLE)
