"""The next turn of a conversation: what it continues, and with which request. Pure: both facades share it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from retinue.client.launching.ticket import JoinedThread, Ticket
from retinue.client.scope import Scope, Target
from retinue.contract import ErrorCode, SubagentLaunchRequest, SubagentLifecycleError
from retinue.store.operations.reading import Conversation


@dataclass(frozen=True, slots=True)
class NextTurn:
    """A turn that is about to be launched.

    Args:
        target: The run that it continues.
        request: What is to be launched.
        thread_id: The conversation's thread.
    """

    target: Target
    request: SubagentLaunchRequest
    thread_id: str

    @classmethod
    def of(
        cls, target: Target, request_json: str | None, text: object, changes: Mapping[str, object]
    ) -> NextTurn:
        """The turn after a run.

        Args:
            target: The run.
            request_json: Its launch as stored. None = it has expired.
            text: What the user says.
            changes: Fields of the request that differ from the run's; None = as they were.

        Raises:
            SubagentLifecycleError: UNKNOWN_HANDLE, or the text or a change is at fault.
        """
        if request_json is None:
            raise unknown_conversation()
        ticket = Ticket.from_json(request_json)
        kept = json.loads(ticket.request.to_json())
        # These belonged to the first turn alone.
        kept = {name: value for name, value in kept.items() if name not in ("context", "correlation_id")}
        given = {name: value for name, value in changes.items() if value is not None}
        try:
            request = SubagentLaunchRequest.parse({**kept, **given, "goal": text})
        except SubagentLifecycleError as error:
            error.field = "text" if error.field == "goal" else error.field
            raise
        return cls(target, request, ticket.thread or target.key.run_id)

    def thread(self, conversation: Conversation | None) -> JoinedThread:
        """Where the turn goes on.

        Args:
            conversation: As it is kept. None = it has expired.

        Raises:
            SubagentLifecycleError: UNKNOWN_HANDLE.
        """
        if conversation is None:
            raise unknown_conversation()
        return JoinedThread(self.thread_id, owner=conversation.owner, continues=self.target.key.run_id)


def checked_target(scope: Scope, target: Target | None) -> Target:
    """A run whose conversation may be continued.

    Raises:
        SubagentLifecycleError: There is none, it is no root, or nobody may launch a root here.
    """
    scope.launching_session()
    if scope.parent is not None:
        raise SubagentLifecycleError(
            "a running agent cannot continue a conversation",
            field="handle",
            mend="launch a sub-agent, or continue the conversation from outside of the run",
        )
    if target is None:
        raise unknown_conversation()
    if target.handle.depth:
        raise SubagentLifecycleError(
            "is the handle of a child, whose conversation is its parent's affair",
            field="handle",
            limit="the handle of a root run",
            mend="continue the root of its tree",
        )
    return target


def unknown_conversation() -> SubagentLifecycleError:
    """The error for a handle that leads to no conversation, for whatever reason."""
    return SubagentLifecycleError(
        "leads to no conversation that is kept",
        field="handle",
        limit="a handle of this session, within conversation_ttl_seconds",
        mend="launch a new run",
        code=ErrorCode.UNKNOWN_HANDLE,
    )
