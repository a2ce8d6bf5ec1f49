"""Operations as values: what they send, and that no reply is misread."""

from __future__ import annotations

import json
from typing import Any

import pytest

from retinue.contract import EventType, Phase, StoreReplyError, SubagentState, new_run_id
from retinue.store.call import CommandCall, RunKey, ScriptCall
from retinue.store.operations import control, launching, noting, reading, running
from retinue.store.operations.launching import NewRun
from retinue.store.record import Ending, WakeUp, WakeUpKind, parse_wake_up
from retinue.store.replies import Fence, Response

RUN = RunKey("acme", new_run_id(7))
FENCE = Fence(3, "token")
RESPONSE = Response(1, 1, 0, Phase.MODEL_CALL, ["{}"], [], None, 1, 2, 3, 4, 5, Ending.STOP)
NEW = NewRun(
    run_id=RUN.run_id,
    digest="d" * 64,
    request_json="{}",
    agent="support",
    agent_json='"support"',
    queue="retinue",
    priority=6,
    correlation=None,
    return_duplicate=False,
    slot=None,
    slot_tool="",
    timeout_ms=0,
    max_iterations=50,
    thread_id="main",
    thread_ttl_s=60,
    first_message=None,
    abandon=False,
    max_live_children=20,
    max_depth=4,
    grant_json=None,
    result_ttl_s=60,
)
FINISH = running.finish(
    RUN,
    FENCE,
    "op",
    state=SubagentState.SUCCEEDED,
    classification=None,
    result_json="{}",
    reply="",
    natural=True,
)

CALLS: dict[str, ScriptCall[Any]] = {
    "launch": launching.launch("acme", "s", [NEW], max_tree_children=9, session_ttl_s=60),
    "claim": running.claim(RUN, token="token", process="p1", capable="\n"),
    "boundary": running.boundary(RUN, FENCE, "op", thread_length=1, results=[], pin=None),
    "record_model": running.record_model(RUN, FENCE, "op", RESPONSE),
    "record_tool_result": running.record_tool_result(
        RUN, FENCE, iteration=1, index=0, value="", tool="t", ok=True, duration_ms=1
    ),
    "note": noting.note_progress(RUN, FENCE, index=0, message="m"),
    "suspend": running.suspend(RUN, FENCE, "op", phase=Phase.WAITING_CHILDREN, entries=[]),
    "finish": FINISH,
    "hand_back": running.hand_back(RUN, FENCE, "op"),
    "take_over": running.take_over(RUN, process="p1", dead=True, losses_before_end=3),
    "timer": control.timer(RUN, again_ms=1),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_reply_that_this_version_does_not_know_is_an_error_and_never_a_guess(name: str) -> None:
    with pytest.raises(StoreReplyError, match=rf"{name} answered NOVEL"):
        CALLS[name].parse([b"NOVEL", b"secret text"])


@pytest.mark.parametrize("name", CALLS)
def test_a_call_names_its_script_its_record_and_its_run(name: str) -> None:
    call = CALLS[name]
    assert call.script.name == name
    assert call.keys == (RUN.record,)
    assert call.argv[:3] == ("retinue:acme:{p07}:", "retinue:{p07}:", "acme")
    if name != "launch":
        assert call.argv[3] == RUN.run_id


def test_each_note_has_an_id_of_its_own_which_its_repeats_share() -> None:
    one, other = (noting.note_progress(RUN, FENCE, index=0, message="m") for _ in range(2))
    assert one.argv[:-1] == other.argv[:-1]
    assert one.argv[-1] != other.argv[-1]


def test_an_event_that_carries_text_is_json_whatever_the_text() -> None:
    call = noting.note_progress(RUN, FENCE, index=2, message='say "hi"\n\u2028')
    assert call.argv[6] == EventType.TOOL_PROGRESS.value
    assert json.loads("{" + str(call.argv[7])[1:] + "}") == {"index": 2, "message": 'say "hi"\n\u2028'}


def test_a_wake_up_is_read_with_its_kind_and_step() -> None:
    reply = [RUN.run_id.encode(), b"4", b"gpu", b"9", b"support", RUN.run_id.encode(), b""]
    assert parse_wake_up("acme", reply) == WakeUp(
        "acme", RUN.run_id, 4, WakeUpKind.RESUME, "support", "gpu", 0, RUN.run_id, None
    )
    launch = parse_wake_up("acme", reply, kind=WakeUpKind.DELEGATE)
    assert launch is not None
    assert launch.priority == 9
    assert parse_wake_up("acme", None) is None


def test_reads_are_bounded_ranges() -> None:
    events = reading.read_events("acme", RUN.run_id, after=5, limit=10)
    assert isinstance(events, CommandCall)
    assert events.command[2:] == (5, 14)
    (event,) = events.parse([b'{"e":"steer.queued","r":"r","t":1,"steer":"s"}'])
    assert (event.sequence, event.data) == (6, {"steer": "s"})
    assert reading.list_roots("acme", "s", place=20, most=10).argv[1:] == (20, 10)


def test_a_run_that_is_gone_is_none() -> None:
    assert reading.read_status(RUN).parse([]) is None
    assert reading.read_result(RUN).parse([]) is None


def test_capability_lists_agents_so_that_none_is_found_within_another() -> None:
    assert running.capability(["a", "ab"], ["b"]) == "\na\tl\nab\tl\nb\to\n"
    assert running.capability([], []) == "\n"
