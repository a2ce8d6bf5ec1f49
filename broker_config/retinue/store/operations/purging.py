"""Removing what has ended, before its time: the calls; in which order they go is the client's affair."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import Any, Final

from retinue.contract import EventType, partition_of_run
from retinue.store import keys
from retinue.store.call import CommandCall, RunKey, ScriptCall, on_run, text, texts, unexpected

PURGE_CHUNK: Final = 50
"""Runs and threads that one purge may remove: about 2 ms of the server."""

EVENTS_A_READ: Final = 1_000

BLANK: Final = {
    EventType.STEER_MISSED: {"text": ""},
    EventType.CANCEL_REQUESTED: {"reason": ""},
    EventType.APPROVAL_REQUESTED: {"arguments": {}},
    EventType.APPROVAL_DECIDED: {"reason": ""},
    EventType.INPUT_REQUESTED: {"arguments": {}},
    EventType.INPUT_ANSWERED: {"reason": ""},
}
"""What of an event was written by a human or a model."""


@dataclass(frozen=True, slots=True)
class Removed:
    """A part of a purge.

    Args:
        records: Of so many runs; a repeat finds none.
        done: How many of the runs that were named are done with, from the first on.
    """

    records: int
    done: int


@dataclass(frozen=True, slots=True)
class StillLive:
    """Nothing was removed: this run goes on."""

    run_id: str


class Goes(StrEnum):
    """What goes with the top of a subtree."""

    ITSELF = ""  # it is a child: its tree stays
    TREE = "tree"  # the conversation that it stands in is kept, and what it was asked
    CONVERSATION = "tree and turn"


@dataclass(frozen=True, slots=True)
class Subtree:
    """Which runs a purge is for.

    Args:
        top: The run that they are at and below.
        session_id: Its session.
        root_id: The root of its tree.
        path: The top's.
        goes: What goes with the top.
        thread_id: The conversation that the top is a turn of; "" = of none, or it is kept.
    """

    top: RunKey
    session_id: str
    root_id: str
    path: str
    goes: Goes
    thread_id: str = ""


@dataclass(frozen=True, slots=True)
class Logged:
    """An entry of a tree's log.

    Args:
        index: Its place, from 0 on.
        run_id: Whose.
        path: Of a run that it tells the beginning of; "" = it tells something else.
        blank: The same without texts of humans and models; None = it has none.
    """

    index: int
    run_id: str
    path: str
    blank: str | None

    @classmethod
    def of(cls, index: int, raw: bytes) -> Logged:
        """An entry as it is stored."""
        entry: dict[str, Any] = json.loads(raw)
        emptied = {**entry, **BLANK.get(EventType(entry["e"]), {})}
        blank = None if emptied == entry else json.dumps(emptied, separators=(",", ":"))
        return cls(index, entry["r"], entry.get("path", ""), blank)


def remove(
    subtree: Subtree, run_ids: Sequence[str], blanked: Sequence[Logged] = ()
) -> ScriptCall[Removed | StillLive]:
    """Removes runs of a subtree, as many as one call may.

    Args:
        run_ids: Which; the top only once the others are gone.
        blanked: Entries of the log that are to lose their texts.
    """

    def parse(reply: Any) -> Removed | StillLive:
        match text(reply[0]):
            case "OK":
                return Removed(int(reply[1]), int(reply[2]))
            case "LIVE":
                return StillLive(text(reply[1]))
            case _:
                raise unexpected("purge", reply)

    where = (subtree.session_id, subtree.root_id, subtree.path, subtree.goes.value, subtree.thread_id)
    entries = chain.from_iterable((entry.index, entry.blank or "") for entry in blanked)
    argv = (*where, PURGE_CHUNK, len(blanked), *entries, *run_ids)
    return on_run("purge", subtree.top, argv, parse)


def first_live(subtree: Subtree) -> CommandCall[str | None]:
    """A run at or below the top that has not ended."""

    def parse(reply: Any) -> str | None:
        return text(reply[0]).partition(" ")[2] if reply else None

    key = f"{_tree(subtree.top.tenant, subtree.root_id)}:live"
    span = (b"[" + subtree.path.encode(), b"(" + subtree.path.encode() + b"\xff")
    return CommandCall(("ZRANGEBYLEX", key, *span, "LIMIT", 0, 1), parse)


def is_kept(root: RunKey) -> CommandCall[bool]:
    """Whether anything is kept of a root run: its record, request, tree, conversation, dead letter."""
    thread = keys.thread(root.tenant, root.run_id, root.run_id)
    letter = f"{keys.dead_letters(root.tenant, partition_of_run(root.run_id))}:{root.run_id}"
    tree = _tree(root.tenant, root.run_id)
    names = (root.record, root.record + ":req", tree, thread, thread + ":tn", letter)
    return CommandCall(("EXISTS", *names), bool)


def later_turns(run: RunKey, thread_id: str) -> CommandCall[list[str]]:
    """The turns of a conversation after its first, as far as anything of them may be kept.

    Args:
        run: Any of the same session.
    """
    return CommandCall(("ZRANGE", keys.thread(run.tenant, run.run_id, thread_id) + ":tn", 0, -1), texts)


def read_log(subtree: Subtree, after: int) -> CommandCall[list[Logged]]:
    """A part of the log of a subtree's tree, from an index on."""

    def parse(reply: Any) -> list[Logged]:
        return [Logged.of(index, raw) for index, raw in enumerate(reply, start=after)]

    key = keys.tree_events(subtree.top.tenant, subtree.root_id)
    return CommandCall(("LRANGE", key, after, after + EVENTS_A_READ - 1), parse)


def _tree(tenant: str, root_id: str) -> str:
    return keys.prefixes(tenant, root_id)[0] + "tree:" + root_id
