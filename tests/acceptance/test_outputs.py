"""Structured results on real workers: submitted, said, corrected once, refused, and those of objects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.output_agents import Report
from tests.acceptance.run_rig import RunRig, of_kind, run_rig

from retinue.client import SubagentLifecycle, SubagentLifecycleError
from retinue.contract import ErrorClassification, EventType, SteerState, SubagentState
from retinue.testing.request import ScriptedRequest
from retinue.testing.scripts import Script

GOOD = {"title": "Mugs", "score": 7, "source": "desk"}
BAD = {"title": "Mugs", "score": 70}
WHAT_IS_WRONG = "$.score: 70 is greater than the maximum of 10"


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    """A worker with four slots."""
    directory: Path = tmp_path_factory.mktemp("outputs")
    with run_rig(directory, agents="output_agents") as rig:
        rig.worker(concurrency=4)
        yield rig


@pytest.fixture
def lifecycle(rig: RunRig) -> SubagentLifecycle:
    """A client."""
    return rig.lifecycle("outputs")


def script(rig: RunRig, agent: str, word: str) -> Script:
    """What the agent's model says in runs with this word in their goal."""
    return rig.model.script(agent, when=lambda request: word in request.messages[0].text)


def asked(rig: RunRig, agent: str, word: str) -> list[ScriptedRequest]:
    """What the agent's model was asked in runs with this word in their goal."""
    found = [recorded.request for recorded in rig.model.requests(agent)]
    return [request for request in found if request and word in request.messages[0].text]


def offered(request: ScriptedRequest, name: str) -> Any:
    """The parameters of a tool, as the model saw them."""
    functions = [tool["function"] for tool in request.body["tools"]]
    return next(function["parameters"] for function in functions if function["name"] == name)


def test_an_object_that_fits_at_once_ends_the_run(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    script(rig, "reporter", "at-once").call("submit_result", GOOD)

    result = lifecycle.run(agent="reporter", goal="at-once", wait_seconds=30)

    assert result.terminal_state is SubagentState.SUCCEEDED
    assert result.structured_payload == GOOD
    assert json.loads(str(result.summary)) == GOOD
    [request] = asked(rig, "reporter", "at-once")
    assert request.tools == ("append", "submit_result")
    assert offered(request, "submit_result") == Report.model_json_schema()
    assert "submit_result" in request.system
    finished = of_kind(list(lifecycle.events(result.handle)), EventType.TOOL_FINISHED)
    assert [(event.data["tool"], event.data["ok"]) for event in finished] == [("submit_result", True)]


@pytest.mark.parametrize("text", [json.dumps(GOOD), f"Here:\n```json\n{json.dumps(GOOD)}\n```"])
def test_a_text_that_is_the_json_of_a_result_is_one(
    rig: RunRig, lifecycle: SubagentLifecycle, text: str
) -> None:
    script(rig, "reporter", "said").say(text)

    result = lifecycle.run(agent="reporter", goal="said", wait_seconds=30)

    assert (result.terminal_state, result.structured_payload) == (SubagentState.SUCCEEDED, GOOD)
    assert json.loads(str(result.summary)) == GOOD


def test_a_launch_names_the_schema_of_an_agent_without_one_and_goes_before_a_declared_one(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    for agent in ("plain", "reporter"):
        script(rig, agent, "launched").call("submit_result", {"n": 4})

        result = lifecycle.run(agent=agent, goal="launched", output_schema=schema, wait_seconds=30)

        assert result.structured_payload == {"n": 4}
        assert offered(asked(rig, agent, "launched")[0], "submit_result") == schema


def test_without_a_schema_no_tool_is_offered_and_a_text_is_a_text(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script(rig, "plain", "text-only").say('{"n": 4}')

    result = lifecycle.run(agent="plain", goal="text-only", wait_seconds=30)

    assert (result.summary, result.structured_payload) == ('{"n": 4}', None)
    assert asked(rig, "plain", "text-only")[0].tools == ("append",)


def test_a_text_that_is_no_result_is_corrected_once(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    script(rig, "reporter", "told").say("All done.").then().call("submit_result", GOOD)

    result = lifecycle.run(agent="reporter", goal="told", wait_seconds=30)

    assert result.structured_payload == GOOD
    first, second = asked(rig, "reporter", "told")
    assert first.last_user == "told"
    assert "not a JSON object" in second.last_user
    assert [message.role for message in second.messages if message.role != "system"] == [
        "user",
        "assistant",
        "user",
    ]


def test_an_object_that_does_not_fit_is_corrected_once(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    script(rig, "reporter", "mended").call("submit_result", BAD).then(json.dumps(GOOD))

    result = lifecycle.run(agent="reporter", goal="mended", wait_seconds=30)

    assert result.structured_payload == GOOD
    _, second = asked(rig, "reporter", "mended")
    [told] = second.results
    assert (told.tool, second.last_user) == ("submit_result", "mended")
    assert WHAT_IS_WRONG in told.text


@pytest.mark.parametrize(
    ("word", "first", "second"),
    [
        ("text-text", "no", "still no"),
        ("text-call", "no", BAD),
        ("call-text", BAD, json.dumps(BAD)),
        ("call-call", BAD, BAD),
    ],
)
def test_a_second_that_does_not_fit_ends_the_run_with_what_was_said(
    rig: RunRig, lifecycle: SubagentLifecycle, word: str, first: Any, second: Any
) -> None:
    turns = script(rig, "reporter", word)
    for answer in (first, second):
        turns.then()
        _ = turns.say(answer) if isinstance(answer, str) else turns.call("submit_result", answer)

    result = lifecycle.run(agent="reporter", goal=word, wait_seconds=30)

    assert result.terminal_state is SubagentState.FAILED
    assert result.error_classification is ErrorClassification.OUTPUT_INVALID
    assert result.structured_payload is None
    assert result.summary == (second if isinstance(second, str) else json.dumps(second))
    wrong = WHAT_IS_WRONG if "70" in str(second) else "not a JSON object"
    assert wrong in str(result.error_message)
    assert len(asked(rig, "reporter", word)) == 2


def test_what_else_the_turn_asks_for_is_done_before_the_run_ends(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script(rig, "reporter", "beside").call("append", {"line": "before"}).call("submit_result", GOOD).call(
        "append", {"line": "after"}
    )

    result = lifecycle.run(agent="reporter", goal="beside", wait_seconds=30)

    assert result.structured_payload == GOOD
    assert {line.split()[1] for line in rig.ledger()} >= {"before", "after"}
    finished = of_kind(list(lifecycle.events(result.handle)), EventType.TOOL_FINISHED)
    assert [event.data["index"] for event in finished][-1] == 1
    assert sorted(event.data["index"] for event in finished) == [0, 1, 2]


def test_children_of_the_same_turn_are_waited_for(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    script(rig, "editor", "family").call("submit_result", GOOD).call(
        "run_agent", {"name": "reporter", "task": "child of the family"}
    )
    script(rig, "reporter", "child of the family").call("submit_result", GOOD)

    result = lifecycle.run(agent="editor", goal="family", wait_seconds=30)

    assert result.structured_payload == GOOD
    assert [node.state for node in lifecycle.tree(result.handle)] == [SubagentState.SUCCEEDED] * 2


def test_the_next_run_in_the_conversation_reads_what_the_calls_came_to(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script(rig, "reporter", "talk").call("append", {"line": "talk"}).call("submit_result", GOOD).then(
        json.dumps(GOOD)
    )
    first = lifecycle.run(agent="reporter", goal="talk", wait_seconds=30)

    handle = lifecycle.continue_run(first.handle, "And again?")

    assert rig.result(lifecycle, handle).structured_payload == GOOD
    appended, submitted = asked(rig, "reporter", "talk")[-1].results
    assert appended.text == "wrote talk"
    assert submitted.text.startswith("[OK]")


def test_a_steer_that_comes_before_the_end_is_answered_with_another_result(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    better = {**GOOD, "score": 9}
    script(rig, "reporter", "steered").hold("steered").call("submit_result", GOOD).then().call(
        "submit_result", better
    )
    handle = lifecycle.launch(agent="reporter", goal="steered")
    rig.model.wait_for(lambda model: model.in_flight("reporter") == 1, timeout_s=30)
    assert lifecycle.steer(handle, "Be generous.")
    rig.model.release("steered")

    result = rig.result(lifecycle, handle)

    assert result.structured_payload == better
    assert [steer.state for steer in result.steers] == [SteerState.DELIVERED]
    second = asked(rig, "reporter", "steered")[1]
    assert second.last_user == "Be generous."
    assert second.results[0].text.startswith("[OK]")


def test_neither_a_limit_of_tool_calls_nor_an_empty_grant_keeps_a_result_back(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script(rig, "hurried", "limit").call("append", {"line": "limit"}).then().call("submit_result", GOOD)
    script(rig, "hurried", "granted").call("submit_result", GOOD)

    limited = lifecycle.run(agent="hurried", goal="limit", wait_seconds=30)
    granted = lifecycle.run(agent="hurried", goal="granted", allowed_toolsets=(), wait_seconds=30)

    assert limited.structured_payload == granted.structured_payload == GOOD
    assert asked(rig, "hurried", "granted")[0].tools == ("submit_result",)


def test_a_child_answers_its_parents_model_with_json_and_nobody_ends_for_the_parent(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script(rig, "reader", "read").call("run_agent", {"name": "reporter", "task": "for the reader"}).then(
        "${results}"
    )
    script(rig, "reporter", "for the reader").call("submit_result", {"title": "é", "score": 1})

    result = lifecycle.run(agent="reader", goal="read", wait_seconds=30)

    assert (result.terminal_state, result.structured_payload) == (SubagentState.SUCCEEDED, None)
    assert json.loads(str(result.summary)) == {"title": "é", "score": 1, "source": "unknown"}


def test_a_large_object_reaches_the_parents_model_whole(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    large = {**GOOD, "title": "x" * 50_000}
    script(rig, "reader", "large").call("run_agent", {"name": "reporter", "task": "large one"}).then("read")
    script(rig, "reporter", "large one").call("submit_result", large)

    lifecycle.run(agent="reader", goal="large", wait_seconds=30)

    [told] = asked(rig, "reader", "large")[-1].results
    assert json.loads(told.text) == large


def test_a_child_that_owes_its_object_to_the_end_is_a_failed_call_of_its_parent(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script(rig, "reader", "sad").call("run_agent", {"name": "reporter", "task": "sad child"}).then(
        "${results}"
    )
    script(rig, "reporter", "sad child").say("no").then("no, no")

    result = lifecycle.run(agent="reader", goal="sad", wait_seconds=30)

    assert result.terminal_state is SubagentState.SUCCEEDED
    assert str(result.summary).startswith("[OUTPUT_INVALID] This agent ended FAILED")
    assert str(result.summary).endswith("no, no")


def test_a_crash_during_the_correction_grants_no_other(rig: RunRig) -> None:
    script(rig, "reporter", "crash").say("no").then().hold("crash").say("no, no").then().call(
        "submit_result", GOOD
    )
    [first] = rig.keep_workers(1, concurrency=4)
    lifecycle = rig.lifecycle("crash")
    handle = lifecycle.launch(agent="reporter", goal="crash")
    rig.model.wait_for(lambda _: len(asked(rig, "reporter", "crash")) == 2, timeout_s=30)

    rig.worker(concurrency=4)
    first.kill()
    rig.model.wait_for(lambda _: len(asked(rig, "reporter", "crash")) == 3, timeout_s=30)
    rig.model.release("crash")
    result = rig.result(lifecycle, handle)

    assert result.error_classification is ErrorClassification.OUTPUT_INVALID
    assert result.summary == "no, no"
    requests = asked(rig, "reporter", "crash")
    assert [request.turn for request in requests] == [0, 1, 1]
    assert requests[1].messages == requests[2].messages
    assert ["not accepted" in message.text for message in requests[2].messages].count(True) == 1


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "array"}, "not the schema of an object"),
        ({"type": "object", "properties": {"a": {"$ref": "http://localhost/"}}}, "leads out of it"),
        ({"type": "object", "required": "a"}, "is no JSON schema"),
        ({"type": "object", "properties": {"a": {"pattern": "(?=a)"}}}, "look-around"),
    ],
)
def test_a_launch_with_a_schema_that_is_none_is_refused(
    lifecycle: SubagentLifecycle, schema: dict[str, Any], says: str
) -> None:
    with pytest.raises(SubagentLifecycleError, match=says) as caught:
        lifecycle.launch(agent="plain", goal="g", output_schema=schema)

    assert caught.value.field == "output_schema"


SCORE = {"title": "t", "score": 3}


@pytest.mark.parametrize(
    ("kind", "summary", "payload"),
    [
        ("text", "a text", None),
        ("dict", '{"title":"t","score":3}', SCORE),
        ("final_response", "a response", None),
        ("output", '{"title":"t","score":3}', SCORE),
        ("final_output", '{"title":"t","score":3,"source":"unknown"}', {**SCORE, "source": "unknown"}),
        ("dataclass", '{"title":"t","score":3}', SCORE),
        ("pydantic", '{"title":"t","score":3,"source":"unknown"}', {**SCORE, "source": "unknown"}),
    ],
)
def test_whatever_an_object_answers_is_its_result(
    lifecycle: SubagentLifecycle, kind: str, summary: str, payload: object
) -> None:
    result = lifecycle.run(agent="everything", goal=kind, wait_seconds=30)

    assert result.terminal_state is SubagentState.SUCCEEDED
    assert (result.summary, result.structured_payload) == (summary, payload)


@pytest.mark.parametrize("kind", ["nothing", "blank", "no object", "empty response", "unreadable"])
def test_an_object_that_answers_nothing_has_failed(lifecycle: SubagentLifecycle, kind: str) -> None:
    result = lifecycle.run(agent="everything", goal=kind, wait_seconds=30)

    assert result.terminal_state is SubagentState.FAILED
    assert result.error_classification is ErrorClassification.OUTPUT_INVALID
    assert "answer" in str(result.error_message)


def test_an_object_is_called_by_position_too_and_told_nothing_of_its_depth(
    lifecycle: SubagentLifecycle,
) -> None:
    result = lifecycle.run(agent="by_position", goal="g", context="c", wait_seconds=30)

    assert result.structured_payload == {
        "task": "g",
        "given": ["context", "inputs", "run_id", "scope", "session_id"],
    }


@pytest.mark.parametrize("kind", ["dict", "json"])
def test_an_object_that_owes_an_object_may_say_it(lifecycle: SubagentLifecycle, kind: str) -> None:
    result = lifecycle.run(agent="everything", goal=kind, output_schema=Report, wait_seconds=30)

    assert result.structured_payload == {**SCORE, "source": "unknown"}


@pytest.mark.parametrize("kind", ["text", "unfit"])
def test_an_object_that_owes_an_object_gets_no_other_try(lifecycle: SubagentLifecycle, kind: str) -> None:
    result = lifecycle.run(agent="everything", goal=kind, output_schema=Report, wait_seconds=30)

    assert result.error_classification is ErrorClassification.OUTPUT_INVALID
    assert result.summary == ("a text" if kind == "text" else '{"title":"t","score":"many"}')
