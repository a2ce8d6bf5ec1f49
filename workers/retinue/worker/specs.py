"""Effective specs at a run's first claim, each resolved once: many runs of an agent behave alike."""

from __future__ import annotations

from collections import OrderedDict

from retinue.agents import EffectiveSpec
from retinue.agents.effective.resolve import resolve
from retinue.agents.registry.registry import Registry
from retinue.broker.settings import Settings
from retinue.client.launching.documents import agent_of
from retinue.client.launching.ticket import Ticket
from retinue.contract import canonical_json
from retinue.store.call import RunKey
from retinue.store.record import Record
from retinue.worker.documents import LaunchedDocuments

_KEPT = 1_024


class SpecResolver:
    """Resolves what a launch asks for against this worker's registry and settings.

    Args:
        registry, settings: Of this process; neither changes while it lives, so neither does an answer.
        documents: Those that came with launches.
    """

    def __init__(self, registry: Registry, settings: Settings, documents: LaunchedDocuments) -> None:
        self._registry = registry
        self._documents = documents
        self._settings = settings
        self._known: OrderedDict[tuple[object, ...], EffectiveSpec] = OrderedDict()

    async def resolve(self, run: RunKey, ticket: Ticket, record: Record) -> EffectiveSpec:
        """The effective spec of a run.

        Raises:
            SubagentLifecycleError, SettingsError: As `retinue.agents.resolve`.
            AgentSpecError, DeclarationError: As `LaunchedDocuments.registry`.
        """
        request = ticket.request
        default = self._settings.delegation.default_agent_name
        agent = None if record.agent == default else record.agent
        by_name = request.agent is not None or request.agent_spec is not None
        owns = agent_of(request, default) if by_name else None
        may_delegate = record.depth < record.max_depth
        max_tool_calls = request.limits.max_tool_calls if request.limits else None
        key = (
            agent,
            owns,
            record.document,
            may_delegate,
            max_tool_calls,
            ticket.role,
            request.model,
            request.provider,
            request.allowed_toolsets,
            request.blocked_tools,
            request.max_iterations,
            None if request.inputs is None else canonical_json(request.inputs),
            None if request.output_schema is None else canonical_json(request.output_schema),
            None if ticket.inherited is None else ticket.inherited.model_dump_json(),
        )
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
            return known
        registry = self._registry
        if record.document is not None:
            registry = await self._documents.registry(run, ticket, record.document)
            registry.check_in_document(record.agent)
        spec = resolve(
            registry,
            self._settings,
            agent,
            model=request.model,
            provider=request.provider,
            inputs=request.inputs,
            output_schema=request.output_schema,
            role=ticket.role,
            allowed_toolsets=request.allowed_toolsets,
            blocked_tools=request.blocked_tools,
            max_iterations=request.max_iterations,
            max_tool_calls=max_tool_calls,
            may_delegate=may_delegate,
            owns=owns,
            parent=ticket.inherited,
        )
        self._known[key] = spec
        if len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return spec
