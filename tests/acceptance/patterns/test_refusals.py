"""Groups that cannot run: refused before any model is asked, with everything that is wrong with them."""

from __future__ import annotations

from typing import Any

from pyagentspec.auth import OAuthClientConfig, OAuthConfig
from pyagentspec.component import Component
from pyagentspec.llms import OpenAiConfig
from pyagentspec.mcp import MCPToolBox, StreamableHTTPTransport
from pyagentspec.serialization import AgentSpecSerializer
from tests.acceptance.patterns.groups import Case, managed, swarm

from retinue.contract import ErrorClassification, SubagentState


def as_dict(component: Component) -> dict[str, Any]:
    return AgentSpecSerializer().to_dict(component)  # pyright: ignore[reportReturnType]


def refusal(case: Case, group: Component | dict[str, Any], **options: Any) -> str:
    """Why the group's run failed without a single model request."""
    result = case.ended(case.lifecycle.launch(agent=group, goal="Go", **options))
    assert result.terminal_state is SubagentState.FAILED
    assert result.error_classification is ErrorClassification.AGENT_ERROR
    assert not any(request.model == case.tag for request in case.model.requests())
    return result.error_message or ""


def test_names_and_edges_that_are_there_twice_are_all_listed_with_the_mend(case: Case) -> None:
    a, b, twin = case.agents("a", "b", "b")
    inner = swarm(a, (a, b), (a, b), name="inner", description="Inner.")
    boss, namesake = case.agents("boss", "boss")

    text = refusal(case, managed(boss, inner, namesake, twin, case.agent("b"), name="outer"))

    assert "relationship 'a' -> 'b' of swarm 'inner' is listed twice: take one out" in text
    assert "two members of 'outer' are named 'boss': rename one" in text
    assert "two members of 'outer' are named 'b': rename one" in text


def test_inputs_that_are_missing_are_listed_for_every_member(case: Case) -> None:
    boss, clerk = case.agent("boss", "For {{user}}."), case.agent("clerk", "In {{city}}.")
    case.says("boss").say("never")

    text = refusal(case, managed(boss, clerk))

    for name in ("user", "city", "clerk"):
        assert name in text


def test_a_model_cannot_manage(case: Case) -> None:
    document = as_dict(managed(case.agent("boss"), case.agent("clerk"), name="team"))
    document["group_manager"] = as_dict(OpenAiConfig(name="just a model", model_id=case.tag))

    text = refusal(case, document)

    assert "ManagerWorkers 'team': group_manager: OpenAiConfig 'just a model': Input should be" in text


def test_a_version_that_is_older_than_what_the_document_holds_is_named(case: Case) -> None:
    first, second = case.agents("first", "second")
    document = {**as_dict(swarm(first, (first, second))), "agentspec_version": "25.4.1"}

    text = refusal(case, document)

    assert (
        "its agentspec_version 25.4.1 is too old: its component 'swarm' needs 25.4.2 or a later one" in text
    )


def test_a_server_that_wants_a_person_to_log_in_is_refused_with_the_setting_to_use(case: Case) -> None:
    login = OAuthConfig(
        name="login",
        issuer="https://login.example.com",
        redirect_uri="https://app.example.com/done",
        client=OAuthClientConfig(name="app", type="pre_registered"),
    )
    transport = StreamableHTTPTransport(name="files", url="https://mcp.example.com/mcp", auth=login)
    clerk = case.agent("clerk", toolboxes=[MCPToolBox(name="box", client_transport=transport)])

    text = refusal(case, managed(case.agent("boss"), clerk))

    assert "agent 'clerk': MCPToolBox 'box' asks for OAuthConfig 'login', which is not supported" in text
    assert '[mcp.servers."files"] headers' in text
