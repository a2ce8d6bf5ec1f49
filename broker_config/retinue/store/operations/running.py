"""What a worker does with a run that it holds: claim, boundary, records, suspend, finish, hand back.

Every call carries the claim's fence (epoch and token); every call that changes more than one natural
slot carries an operation id, so that a repeat after a lost reply gets the first answer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from retinue.contract import ErrorClassification, Phase, SubagentState
from retinue.store.call import RunKey, ScriptCall, count_or_none, mapping, on_run, text, texts, unexpected
from retinue.store.operations.asking import Asked
from retinue.store.operations.budgets import NOTHING_RESERVED, Reservation, woken_of
from retinue.store.operations.dead_letters import KEPT_S, MOST_KEPT
from retinue.store.operations.noting import recorded
from retinue.store.record import Record, WakeUp, parse_wake_up
from retinue.store.replies import (
    Approved,
    Claimed,
    Ended,
    Fence,
    NotClaimed,
    Overtaken,
    Passed,
    Paused,
    Pin,
    Queued,
    Ready,
    Recorded,
    RecordedResponse,
    RequestState,
    Response,
    Spent,
    Stale,
    Stopped,
    Suspended,
    Unpriced,
)


def claim(
    run: RunKey, *, token: str, process: str, capable: str, alone: bool = False, tells_hooks: bool = False
) -> ScriptCall[Claimed | NotClaimed | Ended]:
    """Takes a queued run.

    Args:
        run: Which one.
        token: Random, new for each claim; a repeat under it gets the same answer.
        process: The claiming process.
        capable: The agents that it runs, as `capability` writes them.
        alone: The process runs nothing else beside it: it may have a suspect.
        tells_hooks: The process has hooks that are to be told of the run's end.

    Raises:
        ValueError: The token is empty.
    """
    if not token:
        raise ValueError("a claim needs a token")

    def parse(reply: Any) -> Claimed | NotClaimed | Ended:
        match text(reply[0]):
            case "CLAIMED":
                return Claimed(
                    Fence(int(reply[1]), token),
                    int(reply[2]),
                    Record(mapping(reply[3])),
                    text(reply[4]),
                    text(reply[5]) if reply[5] else None,
                    texts(reply[6]),
                    mapping(reply[7]),
                    [text(grant) for grant in reply[8] if grant],
                    {slot: RequestState(letter) for slot, letter in mapping(reply[9]).items()},
                )
            case "ENDED":
                return _ended(run, reply)
            case "GONE" | "NOT_QUEUED" | "NOT_CAPABLE" | "SUSPECT" as reason:
                return NotClaimed(reason, text(reply[1]) if len(reply) > 1 else "")
            case _:
                raise unexpected("claim", reply)

    return on_run("claim", run, (token, process, capable, int(alone), int(tells_hooks)), parse)


def capability(loops: Sequence[str], objects: Sequence[str]) -> str:
    """The agents that a process runs, as `claim` takes them; objects take no steering."""
    lines = [f"\n{name}\tl" for name in loops] + [f"\n{name}\to" for name in objects]
    return "".join(lines) + "\n"


def boundary(
    run: RunKey,
    fence: Fence,
    operation: str,
    *,
    thread_length: int,
    results: Sequence[tuple[str, str]],
    pin: Pin | None,
    reservation: Reservation | None = None,
) -> ScriptCall[Passed | Stopped | Paused | Spent | Unpriced | Stale]:
    """Passes the iteration boundary.

    Args:
        thread_length: Messages that the attempt knows of.
        results: Slot and message head of each call of the last response, in request order.
        pin: The effective spec at the first boundary, else None.
        reservation: What the request may take; None = no budget stands above the run.
    """

    def parse(reply: Any) -> Passed | Stopped | Paused | Spent | Unpriced | Stale:
        match text(reply[0]):
            case "GO":
                steers = [json.loads(steer) for steer in reply[3]]
                return Passed(int(reply[1]), texts(reply[2]), steers, is_heard=reply[4] == 1)
            case "STALE" | "BEHIND":
                return Stale()
            case "MAX_ITERATIONS":
                return Stopped("MAX_ITERATIONS", int(reply[1]))
            case "CANCEL" | "INTERRUPT" | "DEADLINE" as reason:
                return Stopped(reason)
            case "PAUSED":
                return Paused(text(reply[1]) == "s", woken_of(run, reply[2]))
            case "SPENT":
                return Spent(*texts(reply[1:]))
            case "UNPRICED":
                return Unpriced()
            case _:
                raise unexpected("boundary", reply)

    pairs = [word for slot, head in results for word in (slot, head)]
    pinned = (
        (
            pin.digest,
            pin.spec_json,
            pin.max_iterations,
            pin.model,
            pin.provider,
            count_or_none(pin.max_tool_calls),
        )
        if pin
        else ("", "", 0, "", "", "")
    )
    reserved = reservation.argv() if reservation else NOTHING_RESERVED
    argv = (fence.epoch, fence.token, operation, thread_length, *pinned, *reserved, *pairs)
    return on_run("boundary", run, argv, parse)


def record_model(
    run: RunKey, fence: Fence, operation: str, response: Response
) -> ScriptCall[RecordedResponse | Stale]:
    """Records a model response before anything acts on it."""

    def parse(reply: Any) -> RecordedResponse | Stale:
        match text(reply[0]):
            case "OK":
                allowed = text(reply[1]).partition(":")[2]
                return RecordedResponse(int(allowed) if allowed else None, woken_of(run, reply[2]))
            case "STALE" | "BEHIND":
                return Stale()
            case _:
                raise unexpected("record_model", reply)

    argv = (
        fence.epoch,
        fence.token,
        operation,
        response.iteration,
        response.thread_length,
        response.steers,
        response.phase.value,
        json.dumps(response.partial) if response.partial else "",
        response.input_tokens,
        response.output_tokens,
        response.cached_tokens,
        response.reasoning_tokens,
        response.ending.value,
        len(response.messages),
        "" if response.micro_usd is None else response.micro_usd,
        response.counted_calls,
        *response.messages,
        *(json.dumps(name) for name in response.tools),
    )
    return on_run("record_model", run, argv, parse)


def record_tool_result(
    run: RunKey,
    fence: Fence,
    *,
    iteration: int,
    index: int,
    value: str,
    tool: str,
    ok: bool,
    duration_ms: int,
) -> ScriptCall[Recorded | Stale]:
    """Writes one call's result into the journal.

    Args:
        index: The call within its response, from 0 on.
        value: What the model reads, as text.
        ok: False for a failed call.
    """
    argv = (
        fence.epoch,
        fence.token,
        iteration,
        index,
        json.dumps(value),
        json.dumps(tool),
        "true" if ok else "false",
        duration_ms,
    )
    return on_run("record_tool_result", run, argv, recorded("record_tool_result"))


def suspend(
    run: RunKey,
    fence: Fence,
    operation: str,
    *,
    phase: Phase,
    entries: Sequence[tuple[str, str | Asked]],
    asking_ms: int = 0,
) -> ScriptCall[Suspended | Ready | Approved | Stopped | Stale]:
    """Leaves the worker while calls are open.

    Args:
        phase: Why: waiting_children and its like.
        entries: Slot of each open call, and kind:detail or what a human is asked.
        asking_ms: How long a human has to decide what was not asked before.
    """

    def parse(reply: Any) -> Suspended | Ready | Approved | Stopped | Stale:
        match text(reply[0]):
            case "SUSPENDED":
                wakeup = parse_wake_up(run.tenant, reply[2]) if len(reply) > 2 else None
                return Suspended(int(reply[1]), wakeup)
            case "READY":
                return Ready()
            case "APPROVED":
                return Approved(tuple(texts(reply[1:])))
            case "STALE" | "BEHIND":
                return Stale()
            case "CANCEL" | "INTERRUPT" | "DEADLINE" as reason:
                return Stopped(reason)
            case _:
                raise unexpected("suspend", reply)

    words: list[str] = []
    for slot, entry in entries:
        words += [slot, entry.entry, *entry.argv()] if isinstance(entry, Asked) else [slot, entry, "", ""]
    argv = (fence.epoch, fence.token, operation, phase.value, asking_ms, *words)
    return on_run("suspend", run, argv, parse)


def finish(
    run: RunKey,
    fence: Fence,
    operation: str,
    *,
    state: SubagentState,
    classification: ErrorClassification | None,
    result_json: str,
    reply: str,
    natural: bool,
    answers: Sequence[tuple[str, str]] = (),
) -> ScriptCall[Ended | Overtaken | Stale]:
    """Ends the run.

    Args:
        state: A terminal one.
        classification: Why, for any but SUCCEEDED and CANCELLED.
        result_json: Summary and payload, opaque to the store.
        reply: What the parent's model reads, as text.
        natural: The agent came to its end by itself, so a waiting steer may go on.
        answers: Slot (iteration:index) and head of the message of each call whose result the thread lacks.
    """

    def parse(answer: Any) -> Ended | Overtaken | Stale:
        match text(answer[0]):
            case "ENDED":
                return _ended(run, answer)
            case "STEERS":
                return Overtaken()
            case "STALE":
                return Stale()
            case _:
                raise unexpected("finish", answer)

    argv = (
        fence.epoch,
        fence.token,
        operation,
        state.value,
        classification.value if classification else "",
        result_json,
        json.dumps(reply),
        int(natural),
        *(word for slot, head in answers for word in (slot, head)),
    )
    return on_run("finish", run, argv, parse)


def hand_back(
    run: RunKey, fence: Fence, operation: str, *, times_before_end: int | None = None
) -> ScriptCall[Queued | Ended | Stale]:
    """Gives the run back to its queue.

    Args:
        times_before_end: How often an attempt may give it back within one iteration before it fails with
            INTERNAL_ERROR; None = the process stops in good order, which is nothing that the run can help.
    """

    def parse(reply: Any) -> Queued | Ended | Stale:
        match text(reply[0]):
            case "QUEUED":
                return Queued(_owed(run, reply[1]), _woken(run, reply))
            case "ENDED":
                return _ended(run, reply)
            case "STALE":
                return Stale()
            case _:
                raise unexpected("hand_back", reply)

    argv = (fence.epoch, fence.token, operation, count_or_none(times_before_end), KEPT_S, MOST_KEPT)
    return on_run("hand_back", run, argv, parse)


def take_over(
    run: RunKey, *, process: str, dead: bool, losses_before_end: int, counted: bool = True
) -> ScriptCall[Queued | Ended | None]:
    """Queues a run again that its process cannot go on with; None = it is not that process's any more.

    Args:
        process: The one that holds it.
        dead: The process is gone; else it says itself that it does not run it.
        losses_before_end: Counted losses after which the run fails with WORKER_LOST; or, where its processes
            disowned it so often within one iteration, with INTERNAL_ERROR.
        counted: False = the process stops in good order, which is nothing that the run can help.
    """

    def parse(reply: Any) -> Queued | Ended | None:
        match text(reply[0]):
            case "QUEUED":
                return Queued(_owed(run, reply[1]), _woken(run, reply))
            case "ENDED":
                return _ended(run, reply)
            case "NOT_OWNER":
                return None
            case _:
                raise unexpected("take_over", reply)

    how = "dead" if dead else "idle" if counted else "stopping"
    return on_run("take_over", run, (process, how, losses_before_end, KEPT_S, MOST_KEPT), parse)


def _ended(run: RunKey, reply: Any) -> Ended:
    wakeup = parse_wake_up(run.tenant, reply[2]) if len(reply) > 2 else None
    return Ended(SubagentState(text(reply[1])), wakeup, woken_of(run, reply[3]) if len(reply) > 3 else ())


def _woken(run: RunKey, reply: Any) -> tuple[WakeUp, ...]:
    """What a call that released the run woke; its repeat does not tell that again."""
    return woken_of(run, reply[2]) if len(reply) > 2 else ()


def _owed(run: RunKey, reply: Any) -> WakeUp:
    wakeup = parse_wake_up(run.tenant, reply)
    if wakeup is None:
        raise unexpected("wake-up", reply)
    return wakeup
