"""From a request to what the store writes: who runs it, where, under what limits and as part of what."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import PurePosixPath

from retinue.agents import Grant
from retinue.broker.catalogue import CatalogueSnapshot
from retinue.broker.envelope import EnvelopeTemplate, WakeUpKind
from retinue.broker.routes import queue_for, queue_key
from retinue.broker.settings import Settings
from retinue.client.launching.checks import check_delegation, check_request, known_agent
from retinue.client.launching.documents import agent_of, check_document_tools, document_of
from retinue.client.launching.ticket import JoinedThread, Ticket
from retinue.client.launching.work import work_digest
from retinue.client.parent import ParentBinding
from retinue.contract import (
    LaunchLimits,
    OnParentEnd,
    Role,
    SubagentLaunchRequest,
    SubagentLifecycleError,
    canonical_json,
    request_digest,
    task_id,
)
from retinue.store.keys import correlation_digest
from retinue.store.operations.launching import NewRun
from retinue.store.operations.outbox import Told

__all__ = ["LaunchPlanner", "ParentBinding", "Plan"]

_NO_LIMITS = LaunchLimits()


@dataclass(frozen=True, slots=True)
class Plan:
    """A launch that has passed every check but those of the store.

    Args:
        new_run: What the store writes.
        ticket: What it keeps for later readers; it stands in `new_run` too.
        session_ttl_s: How long the session's list outlives its last launch.
    """

    new_run: NewRun
    ticket: Ticket
    session_ttl_s: int


class LaunchPlanner:
    """Plans launches.

    Args:
        settings: Of this process.
        template: The wake-up's message, for the script to push; None = the broker is another server.
    """

    def __init__(self, settings: Settings, template: EnvelopeTemplate | None) -> None:
        self._settings = settings
        self._template = template

    def plan(
        self,
        request: SubagentLaunchRequest,
        snapshot: CatalogueSnapshot,
        *,
        tenant: str,
        session_id: str,
        run_id: str,
        parent: ParentBinding | None = None,
        slot: str | None = None,
        slot_tool: str = "",
        thread: JoinedThread | None = None,
        by_model: bool = False,
        background: bool = False,
    ) -> Plan:
        """The launch of one run.

        Args:
            request: Checked in itself already.
            snapshot: What workers advertise.
            tenant, session_id: Who owns the run.
            run_id: Its id.
            parent: The launching run. None = a root.
            slot: The parent's call that waits for it (iteration:index).
            slot_tool: The tool that is called there.
            thread: Where it writes its messages. None = a thread of its own: a root's is kept as a
                conversation, a child's as a result.
            by_model: A model asks: a leaf may only delegate to the sub-agents that its declaration names.
            background: No call waits for it, and its parent's model is told of its end.

        Raises:
            SubagentLifecycleError: Names field, limit and mend.
        """
        settings = self._settings
        request = _within(request, parent)
        asked = agent_of(request, settings.delegation.default_agent_name)
        name = thread.owner if thread and thread.owner else asked
        document = document_of(request, name, run_id, parent)
        entry = known_agent(request, snapshot, name, document)
        check_document_tools(request, snapshot)
        if by_model and parent is not None:
            check_delegation(asked, parent)
        check_request(request, snapshot, settings, session_id=session_id, entry=entry, parent=parent)
        depth = parent.depth + 1 if parent else 0
        max_depth = self._max_depth(request, parent)
        role = request.role if depth < max_depth else Role.LEAF
        ticket = Ticket(
            request=request,
            role=role,
            provider=request.provider or (entry.provider if entry else None),
            model=request.model or (entry.model if entry else None),
            inherited=parent.inheritance if parent else None,
            document=document.run_id if document and request.agent_spec is None else None,
            group=thread.group if thread else None,
            thread=thread.thread_id if thread and thread.continues else None,
        )
        correlation = request.correlation_id
        queue, step = queue_for(name, settings, entry.queue if entry else None), request.priority.step
        request_json = request.to_json()
        is_conversation = parent is None or thread is not None
        thread_ttl_s = settings.conversation_ttl_seconds if is_conversation else settings.result_ttl_seconds
        limits = request.limits or _NO_LIMITS
        new_run = NewRun(
            run_id=run_id,
            digest=_digest(request_digest(request, as_json=request_json), thread),
            request_json=ticket.to_json(request_json),
            agent=name,
            agent_json=json.dumps(name),
            queue=queue,
            priority=step,
            correlation=correlation_digest(session_id, correlation) if correlation else None,
            return_duplicate=request.on_duplicate.value == "return",
            slot=slot,
            slot_tool=slot_tool,
            timeout_ms=round((request.timeout_seconds or 0) * 1000) or (1 if request.timeout_seconds else 0),
            max_iterations=request.max_iterations or settings.max_iterations,
            thread_id=thread.thread_id if thread else run_id,
            thread_ttl_s=thread_ttl_s,
            first_message=_first_message(request),
            abandon=request.on_parent_end is OnParentEnd.ABANDON,
            max_live_children=_lower(limits.max_children, settings.max_live_children),
            max_depth=max_depth,
            grant_json=_narrowing(request),
            result_ttl_s=settings.result_ttl_seconds,
            broker_list=queue_key(queue, step) if self._template else None,
            envelope=self._envelope(tenant, run_id, name, queue, step, parent),
            lacks_worker=not snapshot.can_run("" if document else name),
            document=document.digest if document else None,
            background=background,
            continues=thread.continues if thread else None,
            budget=request.budget or (None if parent else settings.budget.of_roots),
            work=work_digest(name, request),
            max_tool_calls=limits.max_tool_calls,
            max_tree=limits.max_tree,
            tells=_tells(
                request,
                has_hooks=snapshot.has_stop_hooks(None if document else name),
                has_endpoints=parent is None and tenant in snapshot.webhook_tenants,
            ),
        )
        return Plan(new_run, ticket, settings.result_ttl_seconds + settings.conversation_ttl_seconds)

    @property
    def max_tree_children(self) -> int:
        """Most children of any tree, whatever its root asks for."""
        return self._settings.max_tree_children

    def _envelope(
        self, tenant: str, run_id: str, name: str, queue: str, step: int, parent: ParentBinding | None
    ) -> bytes | None:
        if self._template is None:
            return None
        parent_task = task_id(parent.run_id, 1) if parent else None
        root_task = task_id(parent.root_id if parent else run_id, 1)
        return self._template.fill(
            WakeUpKind.DELEGATE, tenant, run_id, 1, root_task, parent_task, name, queue, step
        )

    def _max_depth(self, request: SubagentLaunchRequest, parent: ParentBinding | None) -> int:
        ceiling = parent.max_depth if parent else self._settings.max_depth
        return _lower((request.limits or _NO_LIMITS).max_depth, ceiling)


def _within(request: SubagentLaunchRequest, parent: ParentBinding | None) -> SubagentLaunchRequest:
    """A child works in its parent's directory, or somewhere below it."""
    above = parent.working_directory if parent else None
    asked = request.working_directory
    if above is None:
        return request
    if asked is None:
        return request.model_copy(update={"working_directory": above})
    if not PurePosixPath(asked).is_relative_to(PurePosixPath(above)):
        raise SubagentLifecycleError(
            "lies outside the parent's working directory",
            field="working_directory",
            limit=above,
            mend="name that directory or one below it, or leave it out to work in the same",
        )
    return request


def _first_message(request: SubagentLaunchRequest) -> str:
    text = request.goal if not request.context else f"{request.goal}\n\nContext:\n{request.context}"
    return f'{{"role":"user","content":{canonical_json(text)}}}'


def _digest(digest: str, thread: JoinedThread | None) -> str:
    """The same request for another conversation asks for another run."""
    if thread is None or thread.continues is None:
        return digest
    return hashlib.sha256(f"{digest}\0{thread.thread_id}".encode()).hexdigest()


def _narrowing(request: SubagentLaunchRequest) -> str | None:
    """How the launch narrows its ancestors' rights, as JSON; None = not at all."""
    if request.allowed_toolsets is None and not request.blocked_tools:
        return None
    return Grant(toolsets=request.allowed_toolsets, blocked_tools=request.blocked_tools).model_dump_json()


def _tells(request: SubagentLaunchRequest, *, has_hooks: bool, has_endpoints: bool) -> str:
    asked = {
        Told.TASK: request.on_done is not None,
        Told.HOOKS: has_hooks,
        Told.WEBHOOKS: has_endpoints or request.webhook is not None,
    }
    return "".join(whom for whom, is_told in asked.items() if is_told)


def _lower(asked: int | None, ceiling: int) -> int:
    return ceiling if asked is None else min(asked, ceiling)
