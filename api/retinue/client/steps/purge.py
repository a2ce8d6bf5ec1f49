"""In which order a purge goes, so that it can be taken up again wherever it was broken off. Pure.

What leads to the rest goes last: of a tree its log and its root, of a conversation the turn that was asked
for.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from retinue.client.launching.ticket import Ticket
from retinue.client.scope import Target
from retinue.contract import SubagentPurgeResult
from retinue.contract.checks import type_fault
from retinue.store.call import CommandCall, RunKey, ScriptCall
from retinue.store.operations import reading
from retinue.store.operations.purging import (
    PURGE_CHUNK,
    Goes,
    Logged,
    Removed,
    StillLive,
    Subtree,
    first_live,
    is_kept,
    later_turns,
    read_log,
    remove,
)

Call = ScriptCall[Any] | CommandCall[Any]
Steps = Generator[Call, Any, SubagentPurgeResult]
"""Calls to run, each of which is answered with its reply."""

_ROOT_PATH = "0/"


class Purge:
    """One purge, step by step.

    Args:
        target: The run at the top.
        conversation: A root's conversation goes too.

    Raises:
        SubagentLifecycleError: `conversation` is no bool.
    """

    def __init__(self, target: Target, *, conversation: object) -> None:
        if not isinstance(conversation, bool):
            raise type_fault("conversation", conversation, "True or False")
        self._target = target
        self._key = target.key
        self._session = target.handle.parent_session_id
        self._conversation = conversation
        self._records = 0

    def steps(self) -> Steps:
        """The calls, in order; returns what they did."""
        subtrees = yield from (self._child() if self._target.handle.depth else self._turns())
        if not subtrees:
            return SubagentPurgeResult.unknown()
        for subtree in subtrees:
            live = yield first_live(subtree)
            if live:
                return self._answer(live)
        while subtrees:
            live = yield from self._remove(subtrees.pop(0))
            if live:
                return self._answer(live)
        return self._answer(None)

    def _child(self) -> Generator[Call, Any, list[Subtree]]:
        view: reading.RunView | None = yield reading.read_status(self._key)
        if view is None:
            return []
        record = view.record
        return [Subtree(self._key, self._session, record.root_id, record.path, Goes.ITSELF)]

    def _turns(self) -> Generator[Call, Any, list[Subtree]]:
        """The trees of a conversation's turns; the one that was asked for is the last."""
        if not (yield is_kept(self._key)):
            return []
        if not self._conversation:
            return [self._root(self._key.run_id, Goes.TREE)]
        request: str | None = yield reading.read_request(self._key)
        asked = self._key.run_id
        thread = (Ticket.from_json(request).thread if request else None) or asked
        later: list[str] = yield later_turns(self._key, thread)
        others = [run_id for run_id in (thread, *sorted(later)) if run_id != asked]
        return [self._root(run_id, Goes.CONVERSATION, thread) for run_id in (*others, asked)]

    def _root(self, run_id: str, goes: Goes, thread_id: str = "") -> Subtree:
        return Subtree(RunKey(self._key.tenant, run_id), self._session, run_id, _ROOT_PATH, goes, thread_id)

    def _remove(self, subtree: Subtree) -> Generator[Call, Any, str | None]:
        """Removes the runs of a subtree, parents first but for the top; the run that forbids it, or None."""
        top, mine, after = subtree.top.run_id, {subtree.top.run_id}, 0
        while entries := (yield read_log(subtree, after)):
            after += len(entries)
            below = [each for each in entries if each.path.startswith(subtree.path) and each.run_id != top]
            mine.update(each.run_id for each in below)
            blanked = [each for each in entries if each.blank is not None and each.run_id in mine]
            live = yield from self._remove_part(
                subtree,
                [each.run_id for each in below],
                blanked if subtree.goes is Goes.ITSELF else [],
            )
            if live:
                return live
        return (yield from self._remove_part(subtree, [top], []))

    def _remove_part(
        self, subtree: Subtree, run_ids: list[str], blanked: list[Logged]
    ) -> Generator[Call, Any, str | None]:
        while run_ids or blanked:
            part, texts = run_ids[:PURGE_CHUNK], blanked[:PURGE_CHUNK]
            reply: Removed | StillLive = yield remove(subtree, part, texts)
            if isinstance(reply, StillLive):
                return reply.run_id
            self._records += reply.records
            run_ids, blanked = run_ids[reply.done :], blanked[PURGE_CHUNK:]
        return None

    def _answer(self, live_run_id: str | None) -> SubagentPurgeResult:
        return SubagentPurgeResult(purged=live_run_id is None, runs=self._records, live_run_id=live_run_id)
