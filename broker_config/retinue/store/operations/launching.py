"""Launching runs: what a launch writes, and what the store may answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from retinue.contract import Budget, Phase
from retinue.store import keys
from retinue.store.call import ScriptCall, count_or_none, text, texts, unexpected
from retinue.store.operations.budgets import account_of
from retinue.store.scripts import script

MAX_LAUNCHES = 100
"""Runs that one launch may start: about 5 ms of the server."""
BACKGROUND = "bg"
"""In the place of a parent's slot: no call waits for the child."""

_FIRST = 14


@dataclass(frozen=True, slots=True)
class Parent:
    """The run that launches, and the fence that proves that it still may.

    Args:
        run_id: The parent.
        epoch: Its epoch.
        token: Its claim token.
        iteration: The iteration whose calls ask for the children; None for a launch by a tool's code.
    """

    run_id: str
    epoch: int
    token: str
    iteration: int | None


@dataclass(frozen=True, slots=True)
class Rounds:
    """The messages that the members of a group send each other, counted on one run's record.

    Args:
        counted_on: That run.
        most: Of its own life.
    """

    counted_on: str
    most: int


@dataclass(frozen=True, slots=True)
class NewRun:
    """One run to be launched.

    Args:
        run_id: Its id; launching it again answers as the first time.
        digest: SHA-256 of the request: another request under the same id is a conflict.
        request_json: The request and what the handle needs, opaque to the store.
        agent: The agent's name; "" = the default agent.
        agent_json: The same as a JSON string, for the event.
        queue: Where its wake-ups go.
        priority: kombu's step: 3, 6 or 9.
        correlation: `keys.correlation_digest`, or None.
        return_duplicate: Answer a duplicate correlation id with the run that holds it.
        slot: The parent's call that waits for it (iteration:index), or None.
        slot_tool: The tool that is called there, for the event; "" without a slot.
        timeout_ms: From now; 0 = none of its own. Never beyond the parent's deadline.
        max_iterations: Most model requests.
        thread_id: Where it writes its messages.
        thread_ttl_s: How long the thread is kept after its end.
        first_message: A JSON fragment to append to the thread, or None.
        abandon: Go on when the parent ends, instead of being cancelled.
        max_live_children: Of its own.
        max_depth: Inclusive; never more than the parent's.
        grant_json: How it narrows its ancestors' rights, or None.
        result_ttl_s: How long it is kept after its end.
        broker_list: The broker's list to push the envelope to, where broker and store are one server.
        envelope: The wake-up's message.
        document: Digest of the Agent Spec document that the agent stands in, which any worker may load;
            None = its worker has the agent.
        background: The parent's model launched it and does not wait: its end is kept for the parent.
        lacks_worker: No live worker is known to run it: it says so from the start, and is woken all the same.
        continues: The run whose conversation it goes on with, or None.
        replays: The run whose dead letter it is launched from, and takes away; or None.
        work: Digest of what it is asked to do, as `work_digest` makes it; "" = nothing that a run above it
            can be at already.
        max_tool_calls: Its launch's limit of tool calls; None = none, until its spec is resolved.
        max_tree: Most runs ever below it; those above it keep their own caps. None = no cap of its own.
        budget: What it and all runs below it may use; None = no budget of its own.
        tells: Who is to be told of its end: the letters of `outbox.Told`; "" = nobody.
    """

    run_id: str
    digest: str
    request_json: str
    agent: str
    agent_json: str
    queue: str
    priority: int
    correlation: str | None
    return_duplicate: bool
    slot: str | None
    slot_tool: str
    timeout_ms: int
    max_iterations: int
    thread_id: str
    thread_ttl_s: int
    first_message: str | None
    abandon: bool
    max_live_children: int
    max_depth: int
    grant_json: str | None
    result_ttl_s: int
    broker_list: str | None = None
    envelope: bytes | None = None
    lacks_worker: bool = False
    document: str | None = None
    background: bool = False
    continues: str | None = None
    replays: str | None = None
    work: str = ""
    max_tool_calls: int | None = None
    max_tree: int | None = None
    budget: Budget | None = None
    tells: str = ""

    def argv(self) -> tuple[str | bytes | int, ...]:
        return (
            self.run_id,
            self.digest,
            self.request_json,
            self.agent,
            self.agent_json,
            self.queue,
            self.priority,
            self.correlation or "",
            "return" if self.return_duplicate else "raise",
            BACKGROUND if self.background else self.slot or "",
            self.timeout_ms,
            self.max_iterations,
            self.thread_id,
            self.thread_ttl_s,
            self.first_message or "",
            "a" if self.abandon else "c",
            self.max_live_children,
            self.max_depth,
            self.grant_json or "",
            self.result_ttl_s,
            self.broker_list or "",
            self.envelope or b"",
            json.dumps(self.slot_tool),
            (Phase.NO_WORKER if self.lacks_worker else Phase.QUEUED).value,
            self.document or "",
            self.continues or "",
            self.replays or "",
            self.work,
            count_or_none(self.max_tool_calls),
            count_or_none(self.max_tree),
            account_of(self.budget),
            self.tells,
        )


@dataclass(frozen=True, slots=True)
class LaunchedRun:
    """A run that exists now, or has ended. `already_answered`: it has, long ago; its parent knows of it."""

    run_id: str
    repeated: bool
    already_answered: bool
    path: str
    depth: int
    created_ms: int


@dataclass(frozen=True, slots=True)
class Launched:
    """All runs of the batch, in its order. `now_ms` is the server's clock."""

    now_ms: int
    runs: tuple[LaunchedRun, ...]


@dataclass(frozen=True, slots=True)
class DuplicateCorrelation:
    """The correlation id is taken. `same`: by the same request, which was to be returned."""

    run_id: str
    same: bool
    conflict: bool


@dataclass(frozen=True, slots=True)
class IdConflict:
    """The run id is taken by another request."""

    run_id: str


@dataclass(frozen=True, slots=True)
class ParentRefused:
    """The parent may not launch: STALE, ITERATION, CANCELLED or DEADLINE."""

    reason: str


@dataclass(frozen=True, slots=True)
class LimitReached:
    """A cap stands in the way; nothing was launched. `live` = how many there are."""

    name: str
    limit: int
    live: int | None


@dataclass(frozen=True, slots=True)
class ThreadBusy:
    """Another run, which is live, writes to the thread."""

    run_id: str


@dataclass(frozen=True, slots=True)
class LetterGone:
    """There is no dead letter of the run that was to be replayed, or no longer."""

    run_id: str


@dataclass(frozen=True, slots=True)
class SameWork:
    """A run above, this one, was asked to do just that."""

    run_id: str


LaunchReply = (
    Launched
    | DuplicateCorrelation
    | IdConflict
    | ParentRefused
    | LimitReached
    | ThreadBusy
    | LetterGone
    | SameWork
)


def launch(
    tenant: str,
    session_id: str,
    runs: Sequence[NewRun],
    *,
    parent: Parent | None = None,
    rounds: Rounds | None = None,
    max_tree_children: int,
    session_ttl_s: int,
) -> ScriptCall[LaunchReply]:
    """Launches runs of one session, all or none.

    Args:
        tenant: Who they belong to.
        session_id: Their session; all ids lie in its partition.
        runs: 1 to 100.
        parent: The launching run, None for roots.
        rounds: Where the runs count as messages of a group, None = they are none.
        max_tree_children: Cap of each new tree, beside its root's own; a child's tree has one already.
        session_ttl_s: How long the session's list outlives its last launch.

    Raises:
        ValueError: No run, more than 100, or one twice.
    """
    if not 1 <= len(runs) <= MAX_LAUNCHES:
        raise ValueError(f"a launch takes 1 to {MAX_LAUNCHES} runs, not {len(runs)}")
    if len({run.run_id for run in runs}) != len(runs):
        raise ValueError("a launch names a run twice: give each run an id of its own")
    tenant_prefix, partition_prefix = keys.prefixes(tenant, runs[0].run_id)
    iteration = parent.iteration if parent and parent.iteration is not None else ""
    head = (
        tenant_prefix,
        partition_prefix,
        tenant,
        session_id,
        parent.run_id if parent else "",
        parent.epoch if parent else 0,
        parent.token if parent else "",
        iteration,
        max_tree_children + 1,
        session_ttl_s,
        _FIRST,
        rounds.counted_on if rounds else "",
        rounds.most if rounds else 0,
    )
    argv = [*head, *chain.from_iterable(run.argv() for run in runs)]
    return ScriptCall(script("launch"), (keys.record(tenant, runs[0].run_id),), tuple(argv), _parse)


def _parse(reply: Any) -> LaunchReply:
    match text(reply[0]):
        case "OK":
            return Launched(int(reply[1]), tuple(_run(run) for run in reply[2:]))
        case "CONFLICT":
            return IdConflict(text(reply[1]))
        case "DUPLICATE" | "EXISTING" | "CORRELATION_CONFLICT" as kind:
            return DuplicateCorrelation(
                text(reply[1]), same=kind == "EXISTING", conflict=kind == "CORRELATION_CONFLICT"
            )
        case "PARENT":
            return ParentRefused(text(reply[1]))
        case "CAPACITY":
            return LimitReached(text(reply[1]), int(reply[2]), int(reply[3]))
        case "BUSY":
            return ThreadBusy(text(reply[1]))
        case "NO_LETTER":
            return LetterGone(text(reply[1]))
        case "SAME_WORK":
            return SameWork(text(reply[1]))
        case "DEPTH":
            return LimitReached("max_depth", int(reply[1]), None)
        case _:
            raise unexpected("launch", reply)


def _run(reply: Any) -> LaunchedRun:
    run_id, outcome, path, depth, created = texts(reply)
    return LaunchedRun(run_id, outcome == "REPEAT", outcome == "DONE", path, int(depth), int(created))
