"""Sub-agents in the background: started, looked at, waited for, steered and cancelled by a model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.acceptance.run_rig import RunRig, run_rig

from retinue.client import SubagentLifecycle, SubagentState
from retinue.contract import EventType
from retinue.store import keys
from retinue.testing import Call, Match, ScriptedRequest, Turn

TOOLS = (
    "run_agent", "list_agents", "check_agent", "wait_agents", "steer_agent", "cancel_agent", "answer_agent",
)  # fmt: skip


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    """A worker for the tests that leave it alone."""
    with run_rig(tmp_path_factory.mktemp("background"), agents="background_agents") as rig:
        rig.worker()
        yield rig


@pytest.fixture
def lifecycle(rig: RunRig, request: pytest.FixtureRequest) -> SubagentLifecycle:
    return rig.lifecycle(request.node.name[:100])


def start(name: str, task: str) -> Call:
    return Call("run_agent", {"name": name, "task": task, "background": True})


def boss(rig: RunRig, goal: str, *turns: Callable[[list[Any]], Turn | str]) -> None:
    """Scripts the boss for one goal: each turn is made of the results of the turn before it."""
    seen = {0: 0}  # by turn, how many results it does not get: those of earlier turns

    def reply(asked: ScriptedRequest) -> Turn | str:
        seen[asked.turn + 1] = len(asked.results)
        return turns[asked.turn]([_value(result.text) for result in asked.results[seen[asked.turn] :]])

    rig.model.script("boss", when=lambda asked: asked.messages[0].text == goal).reply(reply)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def worker_of(rig: RunRig, name: str, task: str) -> Any:
    return rig.model.script(name, when=Match(user_contains=task))


def calls(*made: Call) -> Turn:
    return Turn(calls=made)


def ids(results: list[Any]) -> list[str]:
    return [result["id"] for result in results]


def test_a_boss_goes_on_while_its_clerks_work_and_then_gets_their_results(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    started: list[str] = []

    def wait(results: list[Any]) -> Turn:
        started.extend(ids(results))
        assert all(result["ended"] is False for result in results)
        return calls(Call("wait_agents", {"ids": started}))

    boss(
        rig,
        "two",
        lambda _: calls(start("clerk", "two-a"), start("clerk", "two-b")),
        wait,
        lambda results: " ".join(f"{one['id'] in started}:{one['result']}" for one in results[0]),
    )
    worker_of(rig, "clerk", "two-a").hold("two").say("A.")
    worker_of(rig, "clerk", "two-b").hold("two").say("B.")

    handle = lifecycle.launch(agent="boss", goal="two")
    rig.wait_for_event(lifecycle, handle, EventType.RUN_SUSPENDED)
    rig.model.release("two")
    result = rig.result(lifecycle, handle)

    assert result.summary == "True:A. True:B.", result
    assert rig.model.requests("boss")[0].request.tools == TOOLS  # pyright: ignore[reportOptionalMemberAccess]
    events = [event for event in lifecycle.events(handle) if event.run_id == handle.subagent_id]
    kinds = [event.type for event in events]
    # It suspended once, for the wait alone: the launches were answered at once.
    assert kinds.count(EventType.RUN_SUSPENDED) == 1
    assert kinds.count(EventType.RUN_RESUMED) == 1


def test_a_wait_in_the_turn_of_the_launches_is_for_all_of_them(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    boss(
        rig,
        "same turn",
        lambda _: calls(start("clerk", "same-a"), start("clerk", "same-b"), Call("wait_agents")),
        lambda results: " ".join(sorted(one["result"] for one in results[2])),
    )
    worker_of(rig, "clerk", "same-a").say("A.")
    worker_of(rig, "clerk", "same-b").say("B.")

    result = rig.result(lifecycle, lifecycle.launch(agent="boss", goal="same turn"))

    assert result.summary == "A. B."


def test_the_first_of_several_ends_a_wait_for_any(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    def told(results: list[Any]) -> Turn:
        first = [one["result"] for one in results[0] if one["ended"]]
        left = [one["id"] for one in results[0] if not one["ended"]]
        assert first == ["Quick."]
        rig.model.release("any-gate")
        return calls(Call("wait_agents", {"ids": left}))

    boss(
        rig,
        "any",
        lambda _: calls(start("slow", "any-slow"), start("clerk", "any-quick")),
        lambda _: calls(Call("wait_agents", {"until": "any"})),
        told,
        lambda results: results[0][0]["result"],
    )
    worker_of(rig, "slow", "any-slow").hold("any-gate").say("Late.")
    worker_of(rig, "clerk", "any-quick").say("Quick.")

    result = rig.result(lifecycle, lifecycle.launch(agent="boss", goal="any"))

    assert result.summary == "Late."


def test_results_stay_readable_after_the_childs_own_keys_are_gone(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    def forget(results: list[Any]) -> Turn:
        (one,) = results[0]
        assert one["result"] == "Kept."
        record = keys.record("_", one["id"])
        for key in [record, *(f"{record}:{part}" for part in ("req", "res", "part", "s", "pg"))]:
            rig.store.delete(key)
        return calls(Call("check_agent", {"id": one["id"]}), Call("wait_agents", {"ids": [one["id"]]}))

    boss(
        rig,
        "kept",
        lambda _: calls(start("clerk", "kept-a")),
        lambda _: calls(Call("wait_agents")),
        forget,
        lambda results: f"{results[0]['result']} {results[1][0]['result']}",
    )
    worker_of(rig, "clerk", "kept-a").say("Kept.")

    result = rig.result(lifecycle, lifecycle.launch(agent="boss", goal="kept"))

    assert result.summary == "Kept. Kept."


def test_a_child_is_looked_at_steered_and_cancelled(tmp_path_factory: pytest.TempPathFactory) -> None:
    with run_rig(tmp_path_factory.mktemp("control"), agents="background_agents") as rig:
        rig.worker(concurrency=2)
        lifecycle = rig.lifecycle()

        def look(results: list[Any]) -> Turn:
            child = results[0]["id"]
            rig.model.wait_for(lambda seen: seen.count("slow") > 0, 20)
            return calls(
                Call("check_agent", {"id": child}),
                Call("steer_agent", {"id": child, "message": "Hurry."}),
                Call("cancel_agent", {"id": child, "reason": "enough"}),
                Call("wait_agents", {"ids": [child]}),
                Call("steer_agent", {"id": child, "message": "Too late."}),
                Call("cancel_agent", {"id": child}),
            )

        boss(
            rig, "control", lambda _: calls(start("slow", "held")), look, lambda results: json.dumps(results)
        )
        worker_of(rig, "slow", "held").hold("never").say("never")

        handle = lifecycle.launch(agent="boss", goal="control")
        result = rig.result(lifecycle, handle)
        looked, steered, cancelled, waited, late, again = json.loads(str(result.summary))

        assert (looked["agent"], looked["ended"], looked["state"]) == ("slow", False, "RUNNING")
        assert "on its way" in steered
        assert "stopped" in cancelled
        assert waited[0]["ended"]
        assert waited[0]["result"].startswith("[CANCELLED]")
        assert late.startswith("[REFUSED]")
        assert again.startswith("[REFUSED]")
        child = next(node for node in lifecycle.tree(handle) if node.depth == 1)
        assert child.state is SubagentState.CANCELLED
        kinds = [event.type for event in lifecycle.events(handle) if event.run_id == child.run_id]
        assert EventType.STEER_QUEUED in kinds


def test_only_ones_own_children_count_and_arguments_are_checked(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    worker_of(rig, "clerk", "foreign").say("Foreign.")
    foreign = rig.lifecycle("other").launch(agent="clerk", goal="foreign")
    rig.result(rig.lifecycle("other"), foreign)

    def attack(_: list[Any]) -> Turn:
        return calls(
            *(Call(tool, {"id": foreign.subagent_id}) for tool in ("check_agent", "cancel_agent")),
            Call("wait_agents", {"ids": [foreign.subagent_id]}),
            Call("steer_agent", {"id": foreign.subagent_id, "message": "Hi."}),
            Call("check_agent", {"id": 7}),
            Call("wait_agents", {"ids": "all"}),
            Call("wait_agents", {"until": "some"}),
            Call("steer_agent", {"id": "x"}),
            Call("cancel_agent", {"id": "x", "force": True}),
            Call("run_agent", {"name": "clerk", "task": "t", "background": "yes"}),
        )

    boss(rig, "attack", lambda _: calls(start("clerk", "mine")), attack, lambda results: json.dumps(results))
    worker_of(rig, "clerk", "mine").say("Mine.")

    result = rig.result(lifecycle, lifecycle.launch(agent="boss", goal="attack"))

    answers = json.loads(str(result.summary))
    assert len(answers) == 10
    assert all("REFUSED" in answer or "not run" in answer for answer in answers), answers
    assert "Foreign" not in str(answers)
    assert "'force'" in answers[8]
    assert lifecycle.status(foreign).state is SubagentState.UNKNOWN


def test_a_boss_that_ends_first_takes_its_children_along(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    boss(rig, "leaving", lambda _: calls(start("slow", "left behind")), lambda _: "I am done.")
    worker_of(rig, "slow", "left behind").hold("nobody").say("never")

    handle = lifecycle.launch(agent="boss", goal="leaving")
    result = rig.result(lifecycle, handle)

    assert result.summary == "I am done."
    rig.wait_until(lambda: all(node.state in _ENDED for node in lifecycle.tree(handle)), "the child's end")
    child = next(node for node in lifecycle.tree(handle) if node.depth == 1)
    assert child.state is SubagentState.CANCELLED


def test_without_leave_there_is_no_background(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    rig.model.script("plain").call("run_agent", {"name": "clerk", "task": "t", "background": True}).then(
        "${results}"
    )

    result = rig.result(lifecycle, lifecycle.launch(agent="plain", goal="go"))

    assert "unknown argument 'background'" in str(result.summary)
    asked = rig.model.requests("plain")[0].request
    assert asked is not None
    assert asked.tools == ("run_agent", "list_agents")


def test_a_boss_that_waits_holds_no_slot_and_survives_its_worker(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with run_rig(tmp_path_factory.mktemp("dying"), agents="background_agents") as rig:
        first = rig.worker(concurrency=1)
        lifecycle = rig.lifecycle()
        boss(
            rig,
            "crash",
            lambda _: calls(start("clerk", "crash-a")),
            lambda _: calls(Call("wait_agents")),
            lambda results: results[0][0]["result"],
        )
        worker_of(rig, "clerk", "crash-a").hold("crash-gate").say("Survived.")

        handle = lifecycle.launch(agent="boss", goal="crash")
        rig.wait_for_event(lifecycle, handle, EventType.RUN_SUSPENDED)
        rig.model.wait_for(lambda seen: seen.in_flight("clerk") > 0, 20)
        first.kill()
        rig.worker(concurrency=1)
        rig.model.release("crash-gate")
        result = rig.result(lifecycle, handle)

        assert result.summary == "Survived."
        assert len(lifecycle.tree(handle)) == 2


_ENDED = (SubagentState.SUCCEEDED, SubagentState.CANCELLED)
