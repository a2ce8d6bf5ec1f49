"""What a dead letter asks for when it is run again. Pure: both facades share it."""

from __future__ import annotations

from dataclasses import dataclass

from retinue.client.launching.faults import no_letter
from retinue.client.launching.ticket import JoinedThread, Ticket
from retinue.client.reading.reads import checked_page
from retinue.client.scope import Scope
from retinue.client.steps.continuing import unknown_conversation
from retinue.contract import (
    PARTITIONS,
    DeadLetter,
    SubagentLaunchRequest,
    SubagentLifecycleError,
    coerce_handle,
    is_run_id,
    partition_of,
)
from retinue.store.call import RunKey, ScriptCall
from retinue.store.operations.dead_letters import read_letters
from retinue.store.operations.reading import Conversation


@dataclass(frozen=True, slots=True)
class Replay:
    """A dead letter that is about to be run again.

    Args:
        letter: With its request.
        request: The same, but for the correlation id, which the lost run may still hold.
        thread_id: The conversation that the lost run went on with. None = it began one.
    """

    letter: DeadLetter
    request: SubagentLaunchRequest
    thread_id: str | None

    @classmethod
    def of(cls, letter: DeadLetter | None) -> Replay:
        """What a letter asks for.

        Raises:
            SubagentLifecycleError: UNKNOWN_HANDLE: there is no such letter. Or it is a child's.
        """
        if letter is None or letter.launch_json is None:
            raise no_letter()
        if letter.parent_id is not None:
            raise SubagentLifecycleError(
                "is a child, whose rights, budget and reader are its parent's; that was told of its end",
                field="run",
                limit="a root run",
                mend="launch the root's request again, or discard the letter",
            )
        ticket = Ticket.from_json(letter.launch_json)
        return cls(letter, ticket.request.model_copy(update={"correlation_id": None}), ticket.thread)

    @property
    def run(self) -> str:
        """The lost run's id."""
        return self.letter.run_id

    def thread(self, conversation: Conversation | None) -> JoinedThread | None:
        """Where the new run writes.

        Args:
            conversation: That of `thread_id` as it is kept. None = it has expired.

        Raises:
            SubagentLifecycleError: UNKNOWN_HANDLE: it has, and the request alone would make no sense.
        """
        if self.thread_id is None:
            return None
        if conversation is None:
            raise unknown_conversation()
        return JoinedThread(self.thread_id, owner=conversation.owner, continues=self.run)


def letter_key(scope: Scope, run: object) -> RunKey | None:
    """Which run's letter is meant: by its id, its handle or the letter itself. None = by none of these."""
    if isinstance(run, DeadLetter):
        return RunKey(scope.tenant, run.run_id)
    handle = None if isinstance(run, str) else coerce_handle(run)
    run_id = handle.subagent_id if handle else run
    return RunKey(scope.tenant, str(run_id)) if is_run_id(run_id) else None


def checked_scope(scope: Scope) -> Scope:
    """A scope that may look at dead letters: a session's or an operator's, and no running agent's.

    Raises:
        SubagentLifecycleError: NO_PARENT, or it is a running agent's.
    """
    if scope.is_operator:
        return scope
    scope.launching_session()
    if scope.parent is not None:
        raise SubagentLifecycleError(
            "a running agent has no dead letters",
            field="run",
            mend="use a facade of the session, outside of a run",
        )
    return scope


def letter_reads(scope: Scope, limit: object) -> list[ScriptCall[list[DeadLetter]]]:
    """The reads that list a scope's letters, newest first in each.

    Raises:
        SubagentLifecycleError: The limit is no count.
    """
    _, most = checked_page(0, limit)
    session = None if scope.is_operator else scope.session_id
    partitions = range(PARTITIONS) if session is None else (partition_of(scope.tenant, session),)
    return [read_letters(scope.tenant, place, session_id=session, most=most) for place in partitions]


def newest(found: list[list[DeadLetter]], limit: int) -> tuple[DeadLetter, ...]:
    """The newest letters of all partitions, newest first."""
    letters = [letter for part in found for letter in part]
    return tuple(sorted(letters, key=lambda letter: (letter.ended_at, letter.run_id), reverse=True)[:limit])
