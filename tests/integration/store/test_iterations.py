"""One iteration after the other: boundary, model response, tool results, notes."""

from __future__ import annotations

import json

from tests.integration.store.attempt import PIN
from tests.integration.store.stage import Stage

from retinue.contract import Phase, SubagentState
from retinue.store.operations.noting import PROGRESS_KEPT
from retinue.store.record import Ending
from retinue.store.replies import Pin, Recorded, RecordedResponse, Stale, Stopped


def test_the_first_boundary_sets_the_run_running_and_pins_its_spec(stage: Stage) -> None:
    root = stage.root(max_iterations=9)
    attempt = stage.claim(root)
    pin = Pin("b" * 64, '{"agent":"support"}', 3, "gpt-5", "azure")
    passed = stage.run(attempt.boundary(pin=pin))
    assert (passed.iteration, passed.messages, passed.steers) == (1, [], [])
    record = stage.record(root)
    assert (record.state, record.phase) == (SubagentState.RUNNING, "model_call")
    assert (record.iteration, record.recorded_iteration, record.max_iterations) == (1, 0, 3)
    assert (record.spec_digest, record.model, record.provider) == ("b" * 64, "gpt-5", "azure")
    assert stage.server.hgetall(stage.part(root, "tree:{}:sp")) == {"b" * 64: pin.spec_json}
    assert stage.story(root)[2:] == [("model.started", {"iteration": 1})]


def test_runs_of_a_tree_with_the_same_spec_share_it(stage: Stage) -> None:
    root = stage.root()
    parent = stage.calling(root)
    stage.asking(stage.child(parent))
    assert list(stage.server.hgetall(stage.part(root, "tree:{}:sp"))) == [PIN.digest]


def test_a_response_is_recorded_with_its_usage_calls_and_partial_text(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.asking(root)
    seen = len(stage.events(root))
    call = attempt.model(tools=["search", 'say "hi"'], partial='Let me "look".')
    assert stage.run(call) == RecordedResponse()
    record, result = stage.record(root), stage.result(root)
    assert (record.phase, record.recorded_iteration) == ("tool_call", 1)
    assert result.partial == 'Let me "look".'
    assert stage.thread(root)[-1] == '{"role":"assistant"}'
    assert stage.story(root, seen) == [
        ("model.finished", {"iteration": 1, "input_tokens": 100, "output_tokens": 20}),
        ("tool.started", {"iteration": 1, "index": 0, "tool": "search"}),
        ("tool.started", {"iteration": 1, "index": 1, "tool": 'say "hi"'}),
    ]
    usage = record.usage
    assert (usage.model_calls, usage.input_tokens, usage.output_tokens) == (1, 100, 20)
    assert (usage.cached_tokens, usage.reasoning_tokens, usage.tool_calls) == (10, 5, 0)


def test_a_response_without_calls_leaves_the_run_at_its_model_call(stage: Stage) -> None:
    attempt = stage.asking(stage.root())
    stage.run(attempt.model())
    assert stage.record(attempt.run).phase == "model_call"
    assert stage.result(attempt.run).partial is None


def test_results_join_the_thread_in_request_order_whatever_came_first(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.calling(root, "search", "search", "look")
    for index in (2, 0, 1):
        name = "look" if index == 2 else "search"
        assert stage.run(attempt.tool(index, f"found {index}", tool=name)) == Recorded()
    assert stage.server.hlen(stage.part(root, "run:{}:j")) == 3
    passed = attempt.go(results=[0, 1, 2], pin=None)
    moved = [f'{{"tool_call_id":"c{n}","content":"found {n}"}}' for n in range(3)]
    assert (passed.iteration, passed.messages) == (2, moved)
    assert stage.thread(root)[-3:] == moved
    assert not stage.server.exists(stage.part(root, "run:{}:j"))
    usage = stage.record(root).usage
    assert usage.tools == {"search": 2, "look": 1}
    assert usage.tool_calls == 3


def test_a_tools_result_is_an_event_with_its_outcome(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.calling(root, "search")
    stage.run(attempt.tool(0))
    event = stage.events(root)[-1]
    assert event.data == {"iteration": 1, "index": 0, "tool": "search", "ok": True, "duration_ms": 7}
    assert event.type == "tool.finished"


def test_texts_of_any_kind_survive_the_journal(stage: Stage) -> None:
    attempt = stage.calling(stage.root(), "search")
    text = 'Größe "≥ 2\\" \n\t\u2028 💡 }{'
    stage.run(attempt.tool(0, text))
    (message,) = attempt.go(results=[0], pin=None).messages
    assert json.loads(message) == {"tool_call_id": "c0", "content": text}


def test_a_late_result_of_an_earlier_iteration_leaves_no_orphan(stage: Stage) -> None:
    attempt = stage.calling(stage.root(), "search")
    late = attempt.tool(0)
    stage.run(late)
    attempt.go(results=[0], pin=None)
    before = stage.dump()
    assert stage.run(late) == Recorded()
    assert stage.dump() == before
    stage.run(attempt.model(tools=["search"]))
    assert stage.run(late) == Recorded()
    assert not stage.server.exists(stage.part(attempt.run, "run:{}:j"))


def test_a_boundary_without_all_results_or_with_another_thread_changes_nothing(stage: Stage) -> None:
    attempt = stage.calling(stage.root(), "search", "search")
    stage.run(attempt.tool(1))
    before = stage.dump()
    assert stage.run(attempt.boundary(results=[0, 1], pin=None)) == Stale()
    assert stage.run(attempt.boundary(results=[1], pin=None, length=1)) == Stale()
    assert stage.dump() == before


def test_a_response_of_another_iteration_or_thread_changes_nothing(stage: Stage) -> None:
    attempt = stage.asking(stage.root())
    before = stage.dump()
    for wrong in ({"iteration": 2}, {"length": 5}):
        assert stage.run(attempt.model(**wrong)) == Stale()
    assert stage.dump() == before


def test_a_boundary_whose_response_was_lost_is_passed_again_under_its_number(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.asking(root)
    stage.run(attempt.hand_back())
    again = stage.claim(root, process="p2")
    assert again.claimed.record.recorded_iteration == 0
    assert again.go(pin=None).iteration == 1
    stage.run(again.model())
    assert stage.record(root).usage.model_calls == 1


def test_the_last_iteration_passes_and_the_next_is_stopped(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.claim(root)
    attempt.go(pin=Pin("b" * 64, "{}", 2, "", ""))
    stage.run(attempt.model(tools=["search"]))
    stage.run(attempt.tool(0))
    assert attempt.go(results=[0], pin=None).iteration == 2
    stage.run(attempt.model(tools=["search"]))
    stage.run(attempt.tool(0))
    before = stage.dump()
    assert stage.run(attempt.boundary(results=[0], pin=None)) == Stopped("MAX_ITERATIONS", 2)
    assert stage.dump() == before


def test_a_limit_of_no_iterations_stops_the_first_boundary(stage: Stage) -> None:
    attempt = stage.claim(stage.root(max_iterations=0))
    assert stage.run(attempt.boundary(pin=None)) == Stopped("MAX_ITERATIONS", 0)


def test_retries_go_to_the_trees_log_and_progress_to_the_runs_own(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.asking(root)
    seen = len(stage.events(root))
    assert stage.run(attempt.retry()) == Recorded()
    assert stage.run(attempt.progress('50 % of "it"')) == Recorded()
    assert stage.story(root, seen) == [
        ("model.retried", {"iteration": 1, "reason": "MODEL_UNAVAILABLE", "delay_ms": 250})
    ]
    assert stage.server.llen(stage.part(root, "run:{}:pg")) == 1


def test_only_the_newest_progress_is_kept(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.asking(root)
    for number in range(PROGRESS_KEPT + 3):
        stage.run(attempt.progress(f"step {number}"))
    kept = stage.server.lrange(stage.part(root, "run:{}:pg"), 0, -1)
    assert len(kept) == PROGRESS_KEPT
    assert '"step 3"' in kept[0]


def test_how_a_response_ended_outlives_the_attempt_that_recorded_it(stage: Stage) -> None:
    attempt = stage.asking(stage.root())
    assert stage.record(attempt.run).ending is Ending.STOP
    stage.run(attempt.model(ending=Ending.LENGTH))
    stage.run(attempt.hand_back())
    again = stage.claim(attempt.run)
    assert again.claimed.record.ending is Ending.LENGTH
    again.go()
    stage.run(again.model())
    assert stage.record(attempt.run).ending is Ending.STOP


def test_a_run_is_shown_as_draining_for_as_long_as_that_attempt_is_at_work(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.asking(root)
    assert stage.run(attempt.draining()) == Recorded()
    assert (stage.record(root).state, stage.record(root).phase) == (SubagentState.RUNNING, Phase.DRAINING)
    stage.run(attempt.model(tools=["search"]))
    assert stage.record(root).phase is Phase.DRAINING
    stage.run(attempt.hand_back())
    assert stage.record(root).phase is Phase.QUEUED
    stage.claim(root)
    assert stage.record(root).phase is Phase.TOOL_CALL
