"""What a launch is refused for before anything is written: each check names field, limit and mend."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from retinue.agents.builtin_tools.output import SUBMIT_RESULT
from retinue.agents.effective.grants import check_known_toolsets
from retinue.agents.tools.api_name import api_name
from retinue.agents.tools.output_validator import check_is_schema
from retinue.agents.tools.tool import RESERVED_TOOL_NAMES
from retinue.broker.routes import APPLICATION_QUEUE, PRIVATE_QUEUE_PREFIX
from retinue.contract import ErrorCode, Role, SubagentLaunchRequest, SubagentLifecycleError, document_tools

if TYPE_CHECKING:
    from retinue.broker.catalogue import AgentEntry, CatalogueSnapshot
    from retinue.broker.settings import Settings
    from retinue.client.launching.documents import DocumentOrigin
    from retinue.client.parent import ParentBinding

# To hand in the result is no right: no grant takes that tool away.
_BUILT_IN: Final = RESERVED_TOOL_NAMES - {SUBMIT_RESULT}


def check_request(
    request: SubagentLaunchRequest,
    snapshot: CatalogueSnapshot,
    settings: Settings,
    *,
    session_id: str,
    entry: AgentEntry | None,
    parent: ParentBinding | None,
) -> None:
    """Refuses a request that cannot be granted here.

    Args:
        request: Checked in itself already.
        snapshot: What workers advertise.
        settings: Of this process.
        session_id: Who launches.
        entry: The agent that is to run. None = workers do not advertise it.
        parent: The launching run. None = a root.

    Raises:
        SubagentLifecycleError: Names field, limit and mend.
    """
    _check_session(request, session_id)
    _check_inputs(request, entry)
    if request.output_schema is not None:
        check_is_schema(request.output_schema)
    _check_provider(request, snapshot, settings, entry)
    toolsets = _toolsets(request, snapshot, parent)
    if request.allowed_toolsets is not None:
        check_known_toolsets(request.allowed_toolsets, toolsets)
        if parent is not None:
            parent.grant.check_not_broadened(request.allowed_toolsets)
    _check_blocked_tools(request, toolsets)
    _check_workspace(request, settings)
    _check_on_done(request, snapshot, settings)
    _check_webhook(request, settings)


def known_agent(
    request: SubagentLaunchRequest, snapshot: CatalogueSnapshot, name: str, document: DocumentOrigin | None
) -> AgentEntry | None:
    """What workers advertise of the agent that is to run; None = nothing.

    Raises:
        SubagentLifecycleError: NO_WORKER or UNKNOWN_AGENT.
    """
    if snapshot.is_empty:
        raise SubagentLifecycleError(
            "no worker has ever advertised an agent",
            field="agent",
            mend="start a worker: `retinue worker your.agents.module`",
            code=ErrorCode.NO_WORKER,
        )
    if document is not None:
        return None  # an agent of that name that workers have is another one
    found = snapshot.agent(name)
    if found is None and request.agent is not None:
        raise SubagentLifecycleError(
            f"no agent is named {name!r}{_near(name, snapshot.agents)}",
            field="agent",
            limit=f"one of {', '.join(sorted(snapshot.agents))}",
            mend="name a known agent, or start a worker that has it",
            code=ErrorCode.UNKNOWN_AGENT,
        )
    return found


def check_delegation(name: str, parent: ParentBinding) -> None:
    """Refuses a leaf's model an agent that its declaration does not name.

    Raises:
        SubagentLifecycleError: UNKNOWN_AGENT.
    """
    if parent.role is Role.LEAF and name not in parent.roster:
        raise SubagentLifecycleError(
            f"{parent.agent} may not delegate to {name!r}",
            field="agent",
            limit=f"one of {', '.join(parent.roster) or '(none)'}",
            mend='declare it as a sub-agent, or launch the parent with role="orchestrator"',
            code=ErrorCode.UNKNOWN_AGENT,
        )


def _check_session(request: SubagentLaunchRequest, session_id: str) -> None:
    if request.parent_session_id not in (None, session_id):
        raise SubagentLifecycleError(
            "is not the session that launches",
            field="parent_session_id",
            limit=session_id,
            mend="leave it out, or use the facade of that session",
        )


def _check_inputs(request: SubagentLaunchRequest, entry: AgentEntry | None) -> None:
    missing = [item for item in (entry.inputs if entry else ()) if item not in (request.inputs or {})]
    if entry is not None and missing:
        raise SubagentLifecycleError(
            f"{entry.name} lacks {', '.join(missing)}",
            field="inputs",
            limit="a value for each input that its prompts name",
            mend="give them by name in inputs",
        )


def _check_provider(
    request: SubagentLaunchRequest,
    snapshot: CatalogueSnapshot,
    settings: Settings,
    entry: AgentEntry | None,
) -> None:
    """Refuses a name that no worker has. An agent that names none may still get one from elsewhere."""
    declared = entry.provider if entry else None
    provider = request.provider or declared
    if provider is None:
        return
    known = {*snapshot.providers, *settings.providers}
    if provider not in known:
        whose = "" if request.provider else f", which the agent {entry.name!r} declares" if entry else ""
        raise SubagentLifecycleError(
            f"no provider is named {provider!r}{whose}{_near(provider, known)}",
            field="provider",
            limit=f"one of {', '.join(sorted(known)) or '(none)'}",
            mend="name a configured provider, or add [providers.<name>] to the workers' settings",
            code=ErrorCode.UNKNOWN_PROVIDER,
        )


def _toolsets(
    request: SubagentLaunchRequest, snapshot: CatalogueSnapshot, parent: ParentBinding | None
) -> Mapping[str, Iterable[str]]:
    """The tools of each toolset: the workers', a document's, and those that the parent has from elsewhere."""
    found: dict[str, Iterable[str]] = {}
    if parent is not None:
        # A tool of the document that the parent's agent stands in is a toolset of its own.
        found |= {name: (name,) for name in parent.inheritance.toolsets}
    if request.agent_spec is not None:
        found |= document_tools(request.agent_spec)
    return {**found, **snapshot.toolsets}


def _check_blocked_tools(request: SubagentLaunchRequest, toolsets: Mapping[str, Iterable[str]]) -> None:
    """Refuses to block what there is not: a misspelt name would leave the tool open."""
    if not request.blocked_tools:
        return
    known = {*_BUILT_IN, *(tool for names in toolsets.values() for tool in names)}
    spelt = {api_name(tool) for tool in known}
    unknown = next((name for name in request.blocked_tools if api_name(name) not in spelt), None)
    if unknown is not None:
        raise SubagentLifecycleError(
            f"no tool is named {unknown!r}{_near(unknown, known)}",
            field="blocked_tools",
            limit="tools of a worker or of the launch's document, and the built-in ones",
            mend="name a known tool, or start a worker that has it",
            # Such a tool may have come just now, as a toolset may.
            code=ErrorCode.UNKNOWN_TOOLSET,
        )


def _check_workspace(request: SubagentLaunchRequest, settings: Settings) -> None:
    if request.working_directory is not None and settings.workspace_root is None:
        raise SubagentLifecycleError(
            "there is no workspace to work in",
            field="working_directory",
            mend="set workspace_root (RETINUE_WORKSPACE_ROOT) here and for the workers",
        )


def _check_on_done(request: SubagentLaunchRequest, snapshot: CatalogueSnapshot, settings: Settings) -> None:
    asked = request.on_done
    if asked is None:
        return
    if asked.task not in settings.on_done_tasks:
        raise SubagentLifecycleError(
            f"the task {asked.task!r} is not allowed{_near(asked.task, settings.on_done_tasks)}",
            field="on_done.task",
            limit=f"one of {', '.join(sorted(settings.on_done_tasks)) or '(none)'}",
            mend="add its name to the setting on_done_tasks (RETINUE_ON_DONE_TASKS) of whoever launches",
        )
    own = {settings.queue, *settings.routes.values(), *snapshot.queues}
    queue = asked.queue or APPLICATION_QUEUE
    if queue in own or queue.startswith(PRIVATE_QUEUE_PREFIX):
        raise SubagentLifecycleError(
            f"{queue!r} is a queue of Retinue's workers, which do not have that task",
            field="on_done.queue",
            limit=f"a queue of the application; None = {APPLICATION_QUEUE}",
            mend="name a queue that a worker of the application serves",
        )


def _check_webhook(request: SubagentLaunchRequest, settings: Settings) -> None:
    asked = request.webhook
    if asked is not None and not asked.url.startswith("https://") and not settings.http.webhook_allow_http:
        raise SubagentLifecycleError(
            "would tell of the run in clear text",
            field="webhook.url",
            limit="an https:// URL",
            mend="use https, or set http.webhook_allow_http of whoever launches and of the API",
        )


def _near(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""
