"""Agents by value: an Agent Spec document that goes along with a launch, and which run keeps it.

pyagentspec is needed only where one of its own objects is handed over, PyYAML only for YAML.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from retinue.contract import (
    ErrorCode,
    SubagentLaunchRequest,
    SubagentLifecycleError,
    document_digest,
    document_name,
    server_tools,
    validate_agent_name,
)

if TYPE_CHECKING:
    from retinue.broker.catalogue import CatalogueSnapshot
    from retinue.client.parent import ParentBinding

_FIELD: Final = "agent_spec"


@dataclass(frozen=True, slots=True)
class DocumentOrigin:
    """The document that a run's agent stands in.

    Args:
        digest: Of the document.
        run_id: The run whose launch brought it along, and with which it is kept.
        members: Registered names of its agents, as far as they are known.
    """

    digest: str
    run_id: str
    members: frozenset[str] = frozenset()


def with_document(fields: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """A request's fields, in which an agent that is given by value has become a document.

    Args:
        fields: `agent` or `agent_spec` may be a document's mapping, its JSON or YAML text, a path to it, or a
            pyagentspec object.

    Raises:
        SubagentLifecycleError: It cannot be read, or both fields hold one.
    """
    agent, spec = fields.get("agent"), fields.get(_FIELD)
    if _is_by_value(agent):
        if spec is not None:
            raise SubagentLifecycleError(
                "is a document, and agent_spec is given too",
                field="agent",
                limit="one document",
                mend="give the document as agent_spec, and as agent the name of the one that starts, if any",
            )
        return {**fields, "agent": None, _FIELD: _document("agent", agent)}
    return {**fields, _FIELD: _document(_FIELD, spec)} if _is_by_value(spec) else fields


def document_of(
    request: SubagentLaunchRequest, name: str, run_id: str, parent: ParentBinding | None
) -> DocumentOrigin | None:
    """The document that the agent of a launch stands in; None = workers have the agent.

    Args:
        name: The agent's.
        run_id: The run that is launched.
        parent: Who launches it: what it names is looked for in the document of its own agent first.
    """
    if request.agent_spec is not None:
        return DocumentOrigin(document_digest(request.agent_spec), run_id)
    above = parent.document if parent else None
    return above if above is not None and name in above.members else None


def agent_of(request: SubagentLaunchRequest, default: str) -> str:
    """The name of the agent that a request asks for.

    Raises:
        SubagentLifecycleError: The document's outermost agent has a name that none may have.
    """
    if request.agent is not None or request.agent_spec is None:
        return request.agent or default
    return validate_agent_name(document_name(request.agent_spec), field=f"{_FIELD}.name")


def check_document_tools(request: SubagentLaunchRequest, snapshot: CatalogueSnapshot) -> None:
    """Refuses a document with ServerTools that no worker has; what each worker has, itself will tell.

    Raises:
        SubagentLifecycleError: UNKNOWN_TOOLSET; lists them.
    """
    if request.agent_spec is None:
        return
    from retinue.agents.tools.api_name import api_name, loose

    known = {loose(api_name(tool)) for tools in snapshot.toolsets.values() for tool in tools}
    missing = [tool for tool in server_tools(request.agent_spec) if loose(api_name(tool)) not in known]
    if missing:
        raise SubagentLifecycleError(
            f"no worker has the ServerTools {', '.join(map(repr, missing))}",
            field=_FIELD,
            limit="tools that a worker has registered",
            mend="declare them with @tool in a module of the workers' setting agents",
            code=ErrorCode.UNKNOWN_TOOLSET,
        )


def _is_by_value(value: object) -> bool:
    if isinstance(value, str):
        # No agent has a name of several lines, or one that is a JSON object.
        return "\n" in value or value.lstrip().startswith("{")
    return isinstance(value, Mapping | os.PathLike) or _is_component(value)


def _document(field: str, value: object) -> object:
    if _is_component(value):
        return _of_component(value)
    if isinstance(value, os.PathLike):
        path = Path(cast("os.PathLike[str]", value))
        try:
            return _of_text(field, path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise SubagentLifecycleError(
                f"{path} cannot be read: {reason}", field=field, mend=f"give a path as seen from {Path.cwd()}"
            ) from None
    return _of_text(field, value) if isinstance(value, str) else value


def _of_text(field: str, text: str) -> object:
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            kind = "JSON"
    else:
        yaml = _yaml(field)
        try:
            return yaml.safe_load(text)
        except (yaml.YAMLError, RecursionError):
            kind = "YAML"
    # Without the parser's own message: it quotes the text.
    raise SubagentLifecycleError(
        f"begins as {kind}, and is none", field=field, limit="an Agent Spec document", mend="correct it"
    )


def _yaml(field: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise SubagentLifecycleError(
            "is YAML, which needs PyYAML", field=field, mend='pip install "retinue[worker]", or give JSON'
        ) from None
    return yaml


def _is_component(value: object) -> bool:
    # Without an import: whoever holds such an object has imported it.
    module = sys.modules.get("pyagentspec.component")
    return module is not None and issubclass(type(value), module.Component)


def _of_component(value: Any) -> object:
    from pyagentspec.serialization import AgentSpecSerializer

    with warnings.catch_warnings():
        # With its credentials, of which it warns, so that the check of the request finds and refuses them.
        warnings.simplefilter("ignore", UserWarning)
        return AgentSpecSerializer().to_dict(value, include_sensitive_fields=True)
