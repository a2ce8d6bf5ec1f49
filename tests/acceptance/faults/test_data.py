"""Data that is empty, huge, deep or no text: bounded, with a clear answer; nobody grows or tries again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.faults.data_agents import LEVELS, MEBIBYTE, nested
from tests.acceptance.run_rig import DEADLINE_S, RunRig, run_rig

from retinue.client import SubagentLifecycle
from retinue.contract import (
    ErrorClassification,
    SubagentLifecycleError,
    SubagentResult,
    SubagentState,
    WaitUntil,
)
from retinue.testing.request import ScriptedRequest
from retinue.testing.scripts import Call, Match, Turn

MOST_RESIDENT_BYTES = 600 * MEBIBYTE
MOST_STORED_BYTES = 300 * MEBIBYTE
RESULT_MAX_BYTES = 262_144
"""The setting's default."""


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    """A worker that all tests share: it lives through each of them."""
    with run_rig(tmp_path_factory.mktemp("data"), agents="faults.data_agents") as rig:
        rig.worker(concurrency=10)
        yield rig


@pytest.fixture
def lifecycle(rig: RunRig) -> Iterator[SubagentLifecycle]:
    """A client; the worker must have lived through what it did."""
    yield rig.lifecycle()
    assert rig.workers[0].running


def run(rig: RunRig, lifecycle: SubagentLifecycle, goal: str) -> SubagentResult:
    """The end of a run that was asked for something."""
    return rig.result(lifecycle, lifecycle.launch(agent="swallower", goal=goal))


@pytest.mark.parametrize(
    ("kind", "heard"),
    [
        ("nothing", ""),
        ("nul", "a\0b"),
        ("surrogate", "a?b"),
        ("surrogate in a list", "no JSON form"),
        ("large", "[cut: the result was longer than"),
        ("large bytes", "[cut: the result was longer than"),
        ("wide", "[cut: the result was longer than"),
        ("deep", "no JSON form"),
        ("circular", "no JSON form"),
        ("fault", "[ERROR] ValueError: xxx"),
        ("progress", "reported"),
    ],
)
def test_whatever_a_tool_returns_its_model_gets_a_bounded_answer(
    rig: RunRig, lifecycle: SubagentLifecycle, kind: str, heard: str
) -> None:
    goal = f"give {kind}."
    rig.model.script("swallower", when=Match(user_contains=goal)).call("give", {"kind": kind}).then(
        "heard ${results}"
    )
    result = run(rig, lifecycle, goal)
    assert result.terminal_state is SubagentState.SUCCEEDED
    [told] = answers(rig, goal)
    assert len(told.encode()) <= RESULT_MAX_BYTES
    assert heard in told


BIG = json.dumps({"data": {"text": "x" * (2 * MEBIBYTE)}})
DEEP = '{"data":{"a":' + "[" * LEVELS + "]" * LEVELS + "}}"
NOT_SO_DEEP = '{"data":{"a":' + "[" * 900 + "]" * 900 + "}}"


@pytest.mark.parametrize("tool", ["take", "ask", "give", "nobody's"])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("empty", ""),
        ("big", BIG),
        ("deep", DEEP),
        ("not so deep", NOT_SO_DEEP),
        ("nul", '{"data":{"a":"\\u0000"}}'),
        ("surrogate", '{"data":{"\\ud800":"\\udfff"}}'),
        ("no json", "x" * MEBIBYTE),
        ("long number", '{"data":{"a":' + "9" * 100_000 + "}}"),
    ],
)
def test_whatever_arguments_a_model_writes_the_call_has_one_bounded_answer(
    rig: RunRig, lifecycle: SubagentLifecycle, tool: str, name: str, arguments: str
) -> None:
    goal = f"write {name} for {tool}."
    turn = Turn(calls=(Call(tool, arguments),), chunk_chars=1_000)
    rig.model.script("swallower", when=Match(user_contains=goal)).then(turn).then("over")
    handle = lifecycle.launch(agent="swallower", goal=goal)
    ended = lifecycle.wait(handle, timeout_seconds=DEADLINE_S, until=WaitUntil.ASKED)
    for request in lifecycle.pending(handle):
        assert len(json.dumps(request.to_dict())) < 2 * RESULT_MAX_BYTES
        lifecycle.deny(handle, request.request_id)
    result = rig.result(lifecycle, handle)
    assert result.terminal_state is SubagentState.SUCCEEDED, (ended, result)
    [told] = answers(rig, goal)
    assert len(told.encode()) <= RESULT_MAX_BYTES


@pytest.mark.parametrize(
    ("name", "turn"),
    [
        ("a text of 5 MiB", Turn(text="x" * (5 * MEBIBYTE), chunk_chars=MEBIBYTE)),
        ("a text of 65 MiB", Turn(text="x" * (65 * MEBIBYTE), chunk_chars=MEBIBYTE)),
        ("arguments of 5 MiB", Turn(calls=(Call("take", "x" * (5 * MEBIBYTE)),), chunk_chars=MEBIBYTE)),
        ("ten thousand calls", Turn(calls=(Call("take", "{}"),) * 10_000)),
    ],
)
def test_a_response_beyond_all_measure_ends_its_run_at_once(
    rig: RunRig, lifecycle: SubagentLifecycle, name: str, turn: Turn
) -> None:
    goal = f"say {name}."
    rig.model.script("swallower", when=Match(user_contains=goal)).then(turn).then("over")
    result = run(rig, lifecycle, goal)
    assert result.terminal_state is SubagentState.FAILED
    assert result.error_classification is ErrorClassification.OUTPUT_INVALID
    assert "limit" in str(result.error_message)
    assert len(asked(rig, goal)) == 1, "the same request would only be paid for again"


def test_the_name_of_a_tool_that_there_is_not_is_bounded_in_the_log(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    turn = Turn(calls=(Call("x" * MEBIBYTE),), chunk_chars=MEBIBYTE)
    rig.model.script("swallower", when=Match(user_contains="name.")).then(turn).then("over")
    handle = lifecycle.launch(agent="swallower", goal="name.")
    rig.succeeded(lifecycle, handle)
    assert all(len(json.dumps(event.to_dict())) < 1_000 for event in lifecycle.events(handle))
    assert len(json.dumps(lifecycle.status(handle).to_dict())) < 4_000


def test_arguments_in_a_hundred_thousand_pieces_are_put_together_once(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    arguments = json.dumps({"data": {"text": "x" * 100_000}})
    turn = Turn(calls=(Call("take", arguments),), chunk_chars=1)
    rig.model.script("swallower", when=Match(user_contains="pieces.")).then(turn).then("over")
    assert run(rig, lifecycle, "pieces.").terminal_state is SubagentState.SUCCEEDED


@pytest.mark.parametrize("text", ["", "a\0b", "a\ud800b"])
def test_a_text_that_is_none_does_no_harm(rig: RunRig, lifecycle: SubagentLifecycle, text: str) -> None:
    goal = f"say {text!r}."
    rig.model.script("swallower", when=Match(user_contains=goal)).say(text)
    result = run(rig, lifecycle, goal)
    assert result.terminal_state in (SubagentState.SUCCEEDED, SubagentState.FAILED)
    assert len(asked(rig, goal)) == 1
    json.dumps(result.to_dict()).encode()


def test_a_conversation_of_ten_thousand_messages_goes_on(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    first = lifecycle.launch(agent="swallower", goal="begin.")
    rig.model.script("swallower", when=Match(user_contains="begin.")).say("begun")
    rig.result(lifecycle, first)
    [thread] = rig.store.scan_iter(f"*th:{first.subagent_id}", count=10_000)
    with rig.store.pipeline(transaction=False) as pipeline:
        for n in range(5_000):
            pipeline.rpush(thread, json.dumps({"role": "user", "content": f"question {n}"}))
            pipeline.rpush(thread, json.dumps({"role": "assistant", "content": f"answer {n}"}))
        pipeline.execute()
    rig.model.script("swallower", when=Match(user_contains="and then?")).reply(lambda _: "that was all")
    again = lifecycle.continue_run(first, "and then?")
    assert rig.result(lifecycle, again).summary == "that was all"


def test_a_log_of_a_million_events_is_read_page_by_page(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    rig.model.script("swallower", when=Match(user_contains="log.")).say("logged")
    handle = lifecycle.launch(agent="swallower", goal="log.")
    rig.result(lifecycle, handle)
    [log] = rig.store.scan_iter(f"*tree:{handle.subagent_id}:ev", count=10_000)
    entry = json.dumps({"e": "model.started", "r": handle.subagent_id, "t": 1, "iteration": 1})
    before = int(str(rig.store.llen(log)))
    for _ in range(100):
        rig.store.rpush(log, *[entry] * 10_000)
    assert next(iter(lifecycle.events(handle))).sequence == 1, "without reading the rest"
    last = list(lifecycle.events(handle, after=before + 999_000))
    assert [event.sequence for event in last] == list(range(before + 999_001, before + 1_000_001))
    rig.store.delete(log)


def test_a_launch_names_the_field_that_is_too_large_too_deep_or_no_text(lifecycle: SubagentLifecycle) -> None:
    deep = nested(LEVELS)
    faulty: list[tuple[str, dict[str, Any]]] = [
        ("goal", {"goal": ""}),
        ("goal", {"goal": "x" * (MEBIBYTE + 1)}),
        ("goal", {"goal": "a\0b"}),
        ("goal", {"goal": "a\ud800b"}),
        ("context", {"context": "x" * (MEBIBYTE + 1)}),
        ("metadata", {"metadata": {"a": deep}}),
        ("metadata", {"metadata": {"a": "x" * (MEBIBYTE + 1)}}),
        ("inputs", {"inputs": {"a": deep}}),
        ("inputs", {"inputs": {"a": "x" * (MEBIBYTE + 1)}}),
        ("output_schema", {"output_schema": {"type": "object", "properties": {"a": deep}}}),
        ("output_schema", {"output_schema": {"description": "x" * (MEBIBYTE + 1)}}),
        ("agent", {"agent": {"component_type": "Agent", "name": "a", "x": deep}}),
        (
            "agent",
            {"agent": '{"component_type": "Agent", "name": "a", "x": ' + "[" * LEVELS + "]" * LEVELS + "}"},
        ),
        ("agent", {"agent": "component_type: Agent\nname: a\nx: " + "[" * LEVELS + "]" * LEVELS}),
        ("agent", {"agent": "component_type: Agent\nname: a\nx: " + "y" * (MEBIBYTE + 1)}),
    ]
    for field, members in faulty:
        with pytest.raises(SubagentLifecycleError) as caught:
            lifecycle.launch({"goal": "g", **members})
        assert str(caught.value.field).startswith(field), (field, caught.value)
        assert caught.value.limit or caught.value.mend
        assert len(str(caught.value)) < 2_000


def test_a_steer_and_an_answer_are_bounded_too(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    goal = "ask and wait."
    rig.model.script("swallower", when=Match(user_contains=goal)).call("ask", {"data": {}}).then("over")
    handle = lifecycle.launch(agent="swallower", goal=goal)
    lifecycle.wait(handle, timeout_seconds=DEADLINE_S, until=WaitUntil.ASKED)
    [request] = lifecycle.pending(handle)
    for text in ("", "x" * (MEBIBYTE + 1), "a\0b", "a\ud800b"):
        assert lifecycle.steer(handle, text) is False
    for value in (nested(LEVELS), "x" * (50 * MEBIBYTE), "a\ud800b"):
        with pytest.raises(SubagentLifecycleError):
            lifecycle.answer(handle, request.request_id, value)
    assert lifecycle.deny(handle, request.request_id, "x" * MEBIBYTE).accepted
    rig.succeeded(lifecycle, handle)


def test_the_worker_has_not_grown_by_what_it_saw(rig: RunRig) -> None:
    """The last test of the module: what came before has passed through one process."""
    status = Path(f"/proc/{rig.workers[0].pid}/status").read_text()
    resident = int(status.split("VmRSS:")[1].split()[0]) * 1024
    assert resident < MOST_RESIDENT_BYTES
    assert int(str(rig.store.info("memory")["used_memory"])) < MOST_STORED_BYTES


def asked(rig: RunRig, goal: str) -> list[ScriptedRequest]:
    """The requests to the model of the runs with this goal."""
    requests = [each.request for each in rig.model.requests("swallower")]
    return [each for each in requests if each is not None and goal in each.messages[0].text]


def answers(rig: RunRig, goal: str) -> list[str]:
    """What the model heard of its calls, in the last request."""
    return [each.text for each in asked(rig, goal)[-1].last_results]
