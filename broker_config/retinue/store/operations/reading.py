"""Reads: one run, a tree's events, a session's runs."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from retinue.contract import Event, SubagentState, partition_of, partition_of_run
from retinue.store import keys
from retinue.store.call import CommandCall, RunKey, ScriptCall, mapping, on_run, text, texts, unexpected
from retinue.store.record import Record
from retinue.store.scripts import script


@dataclass(frozen=True, slots=True)
class Steer:
    """A steer as the run's record keeps it. `disposition`: q queued, d<iteration> delivered, m missed."""

    steer_id: str
    message: str
    disposition: str


@dataclass(frozen=True, slots=True)
class RunView:
    """A run as a reader sees it: a cancel's mark turns a live one into CANCEL_REQUESTED.

    Args:
        under_cancel: It is live, and it or one above it that it follows is to stop.
        is_asking: It, or a run below it, asks something of a human or waits for a budget to be raised; only
            `read_asked` looks.
        now_ms: The server's clock; only a status and a result of `read_result` tell it, 0 = not told.
    """

    record: Record
    under_cancel: bool
    is_asking: bool = False
    now_ms: int = 0
    is_interrupted: bool = False

    @property
    def state(self) -> SubagentState:
        return SubagentState.CANCEL_REQUESTED if self.under_cancel else self.record.state


@dataclass(frozen=True, slots=True)
class RunResult:
    """A run with what it ended with.

    Args:
        view: The run.
        result_json: As the worker wrote it; None when the store itself ended the run.
        partial: The last text beside tool calls, None if there was none.
        request_json: As launched.
        steers: In the order they came.
    """

    view: RunView
    result_json: str | None
    partial: str | None
    request_json: str
    steers: tuple[Steer, ...]


Outcome = RunResult | RunView | None
"""What a run came to; a view = it goes on, None = there is none (any more)."""


def read_state(run: RunKey) -> ScriptCall[RunView | None]:
    """As `read_status`, but the record tells state, phase and agent only: a third of the server's time."""
    return on_run("read", run, ("state",), _view)


def read_asked(run: RunKey) -> ScriptCall[RunView | None]:
    """As `read_state`, and whether the run, or one below it, asks a human or waits for a raise."""

    def parse(reply: Any) -> RunView | None:
        return replace(_view_of(reply), is_asking=reply[2] == 1) if reply else None

    return on_run("read_asked", run, (), parse)


def read_status(run: RunKey) -> ScriptCall[RunView | None]:
    """A run's record; None = there is none (any more)."""

    def parse(reply: Any) -> RunView | None:
        return replace(_view_of(reply), now_ms=int(reply[2])) if reply else None

    return on_run("read", run, ("status",), parse)


def read_outcome(run: RunKey) -> ScriptCall[Outcome]:
    """What a result shows of a run that has ended; of one that goes on, what `read_state` gives."""

    def parse(reply: Any) -> Outcome:
        return _view(reply) if len(reply) == 2 else _result(reply)

    return on_run("read", run, ("outcome",), parse)


def read_result(run: RunKey) -> ScriptCall[RunResult | None]:
    """A run with its result, request and steers; None = there is none (any more)."""
    return on_run("read", run, ("result",), _result)


@dataclass(frozen=True, slots=True)
class RunOrigin:
    """What a run's handle is made of.

    Args:
        record: Its session, depth and creation only.
        request_json: As launched.
    """

    record: Record
    request_json: str


def read_origin(run: RunKey) -> ScriptCall[RunOrigin | None]:
    """What a run's handle is made of; None = there is none (any more)."""

    def parse(reply: Any) -> RunOrigin | None:
        return RunOrigin(Record(mapping(reply[0])), text(reply[1])) if reply else None

    return on_run("read", run, ("origin",), parse)


def read_events(tenant: str, root_id: str, *, after: int = 0, limit: int = 1000) -> CommandCall[list[Event]]:
    """The events of a tree whose sequence is above `after` (the first has 1), at most `limit`."""

    def parse(reply: Any) -> list[Event]:
        return [Event.from_json(after + n, raw) for n, raw in enumerate(reply, start=1)]

    command = ("LRANGE", keys.tree_events(tenant, root_id), after, after + limit - 1)
    return CommandCall(command, parse)


def read_thread(tenant: str, run_id: str, thread_id: str) -> CommandCall[list[str]]:
    """The messages of a thread, JSON fragments in the model API's format."""
    return CommandCall(("LRANGE", keys.thread(tenant, run_id, thread_id), 0, -1), texts)


def count_messages(tenant: str, run_id: str, thread_id: str) -> CommandCall[int]:
    """How many messages a thread has; 0 = it is not kept (any more)."""
    return CommandCall(("LLEN", keys.thread(tenant, run_id, thread_id)), int)


def read_messages(
    tenant: str, run_id: str, thread_id: str, *, place: int, most: int
) -> CommandCall[list[str]]:
    """Some messages of a thread: so many from a place on, the first has 0."""
    key = keys.thread(tenant, run_id, thread_id)
    return CommandCall(("LRANGE", key, place, place + most - 1), texts)


def read_request(run: RunKey) -> CommandCall[str | None]:
    """What is kept of a run's launch, as JSON; None = there is none (any more)."""

    def parse(reply: Any) -> str | None:
        return text(reply) if reply else None

    return CommandCall(("GET", run.record + ":req"), parse)


@dataclass(frozen=True, slots=True)
class BackgroundChild:
    """How a child in the background stands.

    Args:
        reply: What it ended with; None while it lives.
        asks: It asks its parent's model something.
    """

    reply: str | None = None
    asks: bool = False


def read_background(run: RunKey) -> CommandCall[dict[str, BackgroundChild]]:
    """A live run's children in the background, by id."""

    def child_of(raw: str) -> BackgroundChild:
        return BackgroundChild(asks=raw == "?") if raw in ("", "?") else BackgroundChild(json.loads(raw))

    def parse(reply: Any) -> dict[str, BackgroundChild]:
        return {child: child_of(raw) for child, raw in mapping(reply).items()}

    return CommandCall(("HGETALL", run.record + ":bg"), parse)


@dataclass(frozen=True, slots=True)
class Conversation:
    """A thread that is kept. `owner`: the agent that it was last handed off to, None = never."""

    owner: str | None


def read_conversation(run: RunKey, thread_id: str) -> ScriptCall[Conversation | None]:
    """A thread's owner; None = it is not kept (any more).

    Args:
        run: Any of the same session.
    """

    def parse(reply: Any) -> Conversation | None:
        return Conversation(text(reply[0]) or None) if reply else None

    return on_run("read_conversation", run, (thread_id,), parse)


@dataclass(frozen=True, slots=True)
class ListedRoots:
    """A part of a session's list: runs that still exist, and where the list goes on (None = no more)."""

    run_ids: tuple[str, ...]
    next_place: int | None


def list_roots(tenant: str, session_id: str, *, place: int = 0, most: int = 100) -> ScriptCall[ListedRoots]:
    """The ids of a session's root runs, newest first, without those that have expired.

    Args:
        place: Where in the list to read on; 0 = from the newest.
        most: Entries to look at, expired ones included.
    """

    def parse(reply: Any) -> ListedRoots:
        next_place, *run_ids = texts(reply)
        return ListedRoots(tuple(run_ids), int(next_place) if next_place else None)

    prefix = keys.tenant_prefix(tenant, partition_of(tenant, session_id))
    key = keys.session(tenant, session_id)
    return ScriptCall(script("list_roots"), (key,), (prefix, place, most), parse)


TENANTS_A_READ = 1000
"""Tenants that one search looks at: about half a millisecond of the server."""


def find_tenant(run_id: str, *, place: int = 0) -> ScriptCall[str | int | None]:
    """The tenant of a run of which only the id is known; a place to search on from, or None = nobody's.

    Raises:
        ValueError: The id is not one of ours.
    """

    def parse(reply: Any) -> str | int | None:
        match text(reply[0]):
            case "FOUND":
                return text(reply[1])
            case "MORE":
                return int(reply[1])
            case "NONE":
                return None
            case _:
                raise unexpected("find_tenant", reply)

    partition = partition_of_run(run_id)
    argv = (run_id, f"{{p{partition:02d}}}", place, TENANTS_A_READ)
    return ScriptCall(script("find_tenant"), (keys.tenants(partition),), argv, parse)


def _view(reply: Any) -> RunView | None:
    return _view_of(reply) if reply else None


def _view_of(reply: Any) -> RunView:
    mark = text(reply[1])
    return RunView(Record(mapping(reply[0])), mark == "c", is_interrupted=mark == "i")


def _result(reply: Any) -> RunResult | None:
    if not reply:
        return None
    return RunResult(
        replace(_view_of(reply), now_ms=int(reply[6])),
        text(reply[2]) if reply[2] else None,
        json.loads(reply[3]) if reply[3] else None,
        text(reply[4]),
        _steers(mapping(reply[5])),
    )


def _steers(fields: dict[str, str]) -> tuple[Steer, ...]:
    count = sum(1 for name in fields if name.startswith("i"))
    ids = [fields[f"i{n}"] for n in range(1, count + 1)]
    return tuple(
        Steer(steer_id, json.loads(fields[f"t{n}"]), fields["#" + steer_id])
        for n, steer_id in enumerate(ids, start=1)
    )
