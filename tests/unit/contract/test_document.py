"""Documents that go along with a launch: what is taken, and that no credential is."""

from __future__ import annotations

from typing import Any

import pytest

from retinue.contract import (
    AGENT_SPEC_MAX_BYTES,
    SENSITIVE_FIELDS,
    SubagentLaunchRequest,
    SubagentLifecycleError,
    document_digest,
    document_name,
    document_tools,
    server_tools,
)

LLM = {"component_type": "OpenAiConfig", "name": "llm", "model_id": "m"}
TOOL = {"component_type": "ServerTool", "name": "look up", "inputs": []}


def document(**changes: Any) -> dict[str, Any]:
    plain = {"component_type": "Agent", "name": "desk", "llm_config": LLM, "tools": [TOOL]}
    return {**plain, **changes}


def taken(given: object) -> Any:
    return SubagentLaunchRequest.parse(goal="g", agent_spec=given).agent_spec


def refused(given: object) -> SubagentLifecycleError:
    with pytest.raises(SubagentLifecycleError) as caught:
        taken(given)
    assert caught.value.field == "agent_spec"
    assert caught.value.mend
    return caught.value


def test_a_document_is_copied_and_named_by_its_outermost_component() -> None:
    given = document()
    kept = taken(given)
    given["name"] = "changed"

    assert kept == document()
    assert document_name(kept) == "desk"
    assert document_digest(kept) == document_digest(dict(reversed(list(kept.items()))))


def test_an_outermost_component_that_its_parts_refer_to_is_found_among_them() -> None:
    whole = {"$component_ref": "a", "$referenced_components": {"a": document(), "b": LLM}}

    assert document_name(taken(whole)) == "desk"
    assert server_tools(taken(whole)) == ("look up",)


def test_server_tools_are_found_at_any_depth_each_once() -> None:
    other = {"component_type": "ServerTool", "name": "burn"}
    client = {"component_type": "ClientTool", "name": "ask"}
    inner = document(name="inner", tools=[TOOL, other, client])

    assert server_tools(taken(document(workers=[inner]))) == ("burn", "look up")


def test_tools_that_a_document_brings_along_are_toolsets_of_their_own() -> None:
    ask = {"component_type": "ClientTool", "name": "ask me"}
    wishes = ["read", {"component_type": "MCPToolSpec", "name": "write"}]
    files = {"component_type": "MCPToolBox", "name": "files", "tool_filter": wishes}
    everything = {"component_type": "MCPToolBox", "name": "everything", "tool_filter": None}

    found = document_tools(taken(document(tools=[TOOL, ask], toolboxes=[files, everything])))

    assert found == {
        "ask me": ("ask me",),
        "files": ("files", "read", "write"),
        "everything": ("everything",),
    }


@pytest.mark.parametrize("given", [{}, {"name": "x"}, {"component_type": "Agent"}, document(name=" ")])
def test_what_is_no_component_is_refused(given: object) -> None:
    assert "no Agent Spec document" in refused(given).message


@pytest.mark.parametrize("given", ["text", ["list"], 7])
def test_another_type_is_refused(given: object) -> None:
    assert "of type" in refused(given).message


def test_a_large_or_deep_document_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(70):
        deep = [deep]
    assert str(f"{AGENT_SPEC_MAX_BYTES:,}") in str(refused(document(pad="p" * AGENT_SPEC_MAX_BYTES)))
    assert "containers" in refused(document(pad=deep)).message


@pytest.mark.parametrize("name", sorted(SENSITIVE_FIELDS))
def test_each_sensitive_field_is_refused_without_its_value(name: str) -> None:
    error = refused(document(workers=[{**LLM, name: "sk-secret"}]))

    assert f"{name} of OpenAiConfig llm" in error.message
    assert "sk-secret" not in str(error)


@pytest.mark.parametrize("value", [None, "", {}, {"$component_ref": "llm.api_key"}])
def test_a_reference_to_a_credential_and_none_at_all_are_taken(value: object) -> None:
    assert taken(document(llm_config={**LLM, "api_key": value}))


def test_a_sensitive_name_in_what_is_no_component_is_none() -> None:
    tool = {
        **TOOL,
        "inputs": [{"title": "who", "type": "object", "properties": {"user": {"type": "string"}}}],
    }
    assert taken(document(tools=[tool], metadata={"user": "ada"}))


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"url": "https://me:sk-secret@h/v1"}, "url"),
        ({"headers": {"Authorization": "Bearer sk-secret"}}, "headers.Authorization"),
        ({"headers": {"X-API-Key": "sk-secret"}}, "headers.X-API-Key"),
    ],
)
def test_a_credential_in_a_url_or_header_is_refused(changes: dict[str, Any], what: str) -> None:
    error = refused(document(tools=[{"component_type": "RemoteTool", "name": "r", **changes}]))

    assert f"{what} of RemoteTool r" in error.message
    assert "sk-secret" not in str(error)


def test_a_header_that_a_call_fills_in_is_taken() -> None:
    remote = {"component_type": "RemoteTool", "name": "r", "headers": {"Authorization": "Bearer {{token}}"}}
    assert taken(document(tools=[remote]))


def test_every_field_that_agent_spec_calls_sensitive_is_known() -> None:
    pytest.importorskip("pyagentspec")
    import importlib
    import pkgutil

    import pyagentspec
    from pyagentspec.component import Component
    from pyagentspec.sensitive_field import is_sensitive_field

    left_out = ("adapters", "evaluation", "tracing")
    for module in pkgutil.walk_packages(pyagentspec.__path__, "pyagentspec."):
        if not any(part in module.name for part in left_out):
            importlib.import_module(module.name)

    def kinds(above: type[Any]) -> list[type[Any]]:
        return [kind for below in above.__subclasses__() for kind in (below, *kinds(below))]

    found = {
        name
        for kind in kinds(Component)
        for name, info in kind.model_fields.items()
        if is_sensitive_field(info)
    }
    assert found == set(SENSITIVE_FIELDS)
