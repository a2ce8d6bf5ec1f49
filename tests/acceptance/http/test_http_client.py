"""The Python client over HTTP, with an API process that dies and comes back, and workers as processes."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.acceptance.http.http_rig import ApiProcess, HttpRig
from tests.acceptance.run_rig import DEADLINE_S
from tests.docs.fenced import PROJECT, blocks
from tests.integration.client.colours import Blocking, LoopThread

from retinue.client import AsyncSubagentLifecycle, SubagentLifecycle, SubagentState


@pytest.fixture(scope="module")
def api(web: HttpRig) -> ApiProcess:
    """The module's API process; one worker runs its runs."""
    web.rig.worker(concurrency=4)
    return web.apis[0]


@pytest.fixture(params=["sync", "async"])
def lifecycle(request: pytest.FixtureRequest, web: HttpRig, api: ApiProcess) -> Iterator[Any]:
    """A facade over HTTP, of either colour."""
    way = {"url": api.url, "api_key": web.key()}
    if request.param == "sync":
        with SubagentLifecycle("customer-42", **way) as facade:
            yield facade
        return
    thread = LoopThread()
    shown = Blocking(AsyncSubagentLifecycle("customer-42", **way), thread)
    yield shown
    shown.close()
    thread.close()


class Watching:
    """Threads that wait for a run and follow its events."""

    def __init__(self, lifecycle: Any, handle: Any) -> None:
        self.ends: list[Any] = []
        self.events: list[Any] = []
        self._threads = [
            threading.Thread(target=lambda: self.ends.append(lifecycle.wait(handle, 4 * DEADLINE_S))),
            threading.Thread(target=lambda: self._follow(lifecycle, handle)),
        ]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(DEADLINE_S)
            assert not thread.is_alive()

    def _follow(self, lifecycle: Any, handle: Any) -> None:
        for event in lifecycle.events(handle, follow=True):
            self.events.append(event)


def test_a_wait_and_a_follower_go_on_over_a_death_and_a_restart_of_the_api(
    web: HttpRig, api: ApiProcess, lifecycle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine may take long to start a process.
    monkeypatch.setattr("retinue.client.clock.OUTAGE_S", DEADLINE_S)
    goal = f"kept {type(lifecycle).__name__}"
    script = web.rig.model.script("clerk", when=lambda request: goal in request.messages[0].text)
    script.call("count").hold(goal).then("It is done.")
    handle = lifecycle.launch(agent="clerk", goal=goal)
    web.rig.model.wait_for(lambda model: model.in_flight("clerk") == 1, DEADLINE_S)

    watching = Watching(lifecycle, handle)
    api.process.wait_for_log(re.escape(f"{handle.subagent_id}/wait"), timeout_s=DEADLINE_S)
    web.rig.wait_until(lambda: len(watching.events) > 1, "the first events")
    api.kill()
    api.start_again()
    lifecycle.steer(handle, "Still there?")
    web.rig.wait_until(lambda: watching.events[-1].type == "steer.queued", "an event after the death")
    api.restart()
    web.rig.model.release(goal)
    watching.join()

    assert [end.state for end in watching.ends] == [SubagentState.SUCCEEDED]
    assert [event.sequence for event in watching.events] == list(range(1, len(watching.events) + 1))
    assert watching.events == list(lifecycle.events(handle))
    assert watching.events[-1].type == "run.finished"
    result = lifecycle.result(handle)
    assert result == web.rig.lifecycle("customer-42").result(handle)
    assert result.summary == "It is done."


def test_a_run_is_launched_decided_and_read(web: HttpRig, lifecycle: Any) -> None:
    goal = f"decided {type(lifecycle).__name__}"
    script = web.rig.model.script("clerk", when=lambda request: goal in request.messages[0].text)
    script.call("refund", {"order": 1}).then("${results}")
    handle = lifecycle.launch(agent="clerk", goal=goal)
    assert not lifecycle.wait(handle, DEADLINE_S, until="asked").completed
    [asked] = lifecycle.pending(handle)
    assert lifecycle.approve(handle, asked.request_id).accepted
    assert lifecycle.wait(handle, DEADLINE_S).completed
    assert lifecycle.full_text(handle) == "refunded 1"
    assert lifecycle.run(agent="echo", goal="hello", wait_seconds=DEADLINE_S).summary == "hello"


def test_the_example_of_the_page_runs(
    web: HttpRig, api: ApiProcess, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = blocks(PROJECT / "docs" / "http-client.md", "python")
    monkeypatch.setenv("RETINUE_URL", api.url)
    monkeypatch.setenv("RETINUE_API_KEY", web.key())
    exec(example.replace('"support"', '"echo"'), {})
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "1 run.created"
    assert printed[-2].endswith(" run.finished")
    assert printed[-1] == "May I return opened headphones?"
