"""Hooks as they are declared and found."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from retinue.agents import HookPoint, Registry, RunStopped, ToolUsed, on_start, on_stop, on_tool
from retinue.agents.registry.catalogue import advertise
from retinue.broker.settings import Settings
from retinue.contract import DeclarationError

MODULE = """
from retinue.agents import Agent, on_start, on_stop
from shared_hooks import everywhere

@on_start
def first(moment): ...

@on_stop
def second(moment): ...

agent = Agent(name="support", instructions="Help.")
"""
SHARED = """
from retinue.agents import on_stop

@on_stop
async def everywhere(moment): ...
"""


def test_hooks_of_all_modules_are_found_once_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hooked.py").write_text(MODULE)
    (tmp_path / "shared_hooks.py").write_text(SHARED)
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        registry = Registry.load(["hooked", "shared_hooks"])
    finally:
        for name in ("hooked", "shared_hooks"):
            sys.modules.pop(name, None)
    assert [hook.name for hook in registry.hooks] == ["everywhere", "first", "second"]
    assert [hook.is_async for hook in registry.hooks] == [True, False, False]
    assert registry.bare_modules == ()


def test_a_hook_is_still_the_function() -> None:
    seen: list[object] = []
    hook = on_stop(seen.append)
    moment: RunStopped = object()  # pyright: ignore[reportAssignmentType]
    hook(moment)
    assert seen == [moment]
    assert hook.point is HookPoint.STOP


def test_an_object_with_an_async_call_belongs_on_the_loop() -> None:
    class Meter:
        async def __call__(self, used: ToolUsed) -> None: ...

    hook = on_tool(Meter())
    assert hook.is_async
    assert hook.name == "Meter"


def test_what_does_not_take_one_argument_is_no_hook() -> None:
    def neither() -> None: ...

    with pytest.raises(DeclarationError, match="on_start"):
        on_start(neither)  # pyright: ignore[reportArgumentType]


def test_agents_are_advertised_with_whether_ends_are_told() -> None:
    settings = Settings.read(store_url="redis://localhost")

    def stops(*hooks: object) -> list[object]:
        found = advertise(Registry.from_objects(*hooks), settings)["agents"]
        assert isinstance(found, list)
        return [agent["stop_hooks"] for agent in found if isinstance(agent, dict)]

    assert stops() == [False]
    assert stops(on_start(print)) == [False]
    assert stops(on_stop(print)) == [True]
