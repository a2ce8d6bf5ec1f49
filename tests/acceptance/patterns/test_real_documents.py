"""Every document that the specification and its reference runtime publish, unchanged, sent by value."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from pyagentspec.serialization import AgentSpecDeserializer
from tests.acceptance.patterns.groups import send
from tests.acceptance.run_rig import RunRig, run_rig

from retinue.agents import load_agent_spec
from retinue.contract import AgentSpecError, SubagentState
from retinue.testing import ScriptedRequest, Turn

_ROOT = Path(os.environ.get("RETINUE_SHARED") or Path(__file__).parents[4] / "shared").resolve()
_FOLDER = _ROOT / "data" / "agentspec"
_REJECTED = {
    "agent-spec/howto_disaggregated_component_config.yaml": "parts",
    "agent-spec/howto_disaggregated_main_config.yaml": "llm_config",
    "wayflow/agent_with_sensitive_fields.json": "ca_file",
    "wayflow/docs_howto_managerworkers2.yaml": "26.2.0",
    "wayflow/docs_howto_swarm2.yaml": "26.2.0",
}
# Its tools live on a server: see the tests of MCP tools.
_ELSEWHERE = {"agent-spec/howto_mcp_agent.yaml"}
_DOCUMENTS = sorted(
    str(path.relative_to(_FOLDER)) for path in _FOLDER.rglob("*") if path.suffix in (".yaml", ".json")
)
_LOADABLE = [name for name in _DOCUMENTS if name not in {*_REJECTED, *_ELSEWHERE}]
_LLMS = (
    "model_name",
    "my_llm",
    "Vllm model",
    "vllm-llama-4-maverick",
    "meta.llama-3.3-70b-instruct",
    "llama-3.1-8b-instruct",
    "gpt-oss-120b",
    "llm_9112faef__auto",
    "llm_58b6cb28__auto",
    "llm_cea4a16e__auto",
    "Llama-3.1-70B-Instruct",
)
_INPUTS = {
    name: f"some {name}"
    for name in (
        "user_name", "customer_id", "company_policy_info", "agent_title", "agent_description",
        "workflow_title", "workflow_description", "topics", "format_instructions", "special_instructions",
        "context",
    )
}  # fmt: skip

pytestmark = pytest.mark.skipif(not _FOLDER.is_dir(), reason="no Agent Spec files: set RETINUE_SHARED")


@pytest.fixture(scope="module")
def documents_rig(tmp_path_factory: pytest.TempPathFactory) -> Generator[RunRig]:
    """A worker that has the documents' functions, and sends what is meant for their models to ours."""
    llms: dict[str, Any] = {}
    directory = tmp_path_factory.mktemp("documents")
    with run_rig(directory, agents="patterns.document_tools", llm_configs=llms) as rig:
        llms.update({name: {"url": rig.model.base_url, "api_key": "spec-key"} for name in _LLMS})
        rig.worker(concurrency=2)
        rig.model.script_where("everybody", lambda _asked: True).reply(_passes_on)
        yield rig


def _passes_on(asked: ScriptedRequest) -> Turn | str:
    """A model that asks everybody it may ask, once, and then answers with what it heard."""
    if asked.results or "send_message" not in asked.tools:
        return "heard: ${results}" if asked.results else f"{asked.last_user} it is"
    names = next(
        tool["function"]["parameters"]["properties"]["recipient"]["enum"]
        for tool in asked.body["tools"]
        if tool["function"]["name"] == "send_message"
    )
    return Turn(calls=tuple(send(name, "tell me") for name in names))


@pytest.mark.parametrize("name", _LOADABLE)
def test_a_document_runs_unchanged(documents_rig: RunRig, name: str) -> None:
    lifecycle = documents_rig.lifecycle(f"session-{_DOCUMENTS.index(name)}")
    document = (_FOLDER / name).read_text()

    result = lifecycle.run(agent=document, goal="So", inputs=_INPUTS, wait_seconds=45)

    assert result.terminal_state is SubagentState.SUCCEEDED, (result.error_message, result.summary)
    assert result.summary is not None
    group = "swarm" in name or "managerworkers" in name
    assert result.summary.startswith("heard: " if group else "So it is")
    assert "it is" in result.summary or "waits for your answer" in result.summary


def test_the_disaggregated_document_runs_with_its_parts(tmp_path: Path) -> None:
    folder, reader = _FOLDER / "agent-spec", AgentSpecDeserializer()
    parts = reader.from_yaml(
        (folder / "howto_disaggregated_component_config.yaml").read_text(),
        import_only_referenced_components=True,
    )
    main = (folder / "howto_disaggregated_main_config.yaml").read_text()
    agent = reader.from_yaml(main, components_registry=parts)
    llms: dict[str, Any] = {}
    # A worker of its own: the document's ClientTool has the name of a function of the others.
    with run_rig(tmp_path, agents="patterns.pattern_tools", llm_configs=llms) as rig:
        llms["llm-dev"] = {"url": rig.model.base_url, "api_key": "spec-key"}
        rig.worker(concurrency=2)
        rig.model.script_where("everybody", lambda _asked: True).reply(_passes_on)

        result = rig.lifecycle().run(agent=agent, goal="So", inputs=_INPUTS, wait_seconds=45)

    assert result.terminal_state is SubagentState.SUCCEEDED, result.error_message
    assert result.summary == "So it is"


@pytest.mark.parametrize(("name", "reason"), sorted(_REJECTED.items()))
def test_a_document_that_cannot_be_loaded_gives_one_readable_error(name: str, reason: str) -> None:
    with pytest.raises(AgentSpecError) as refused:
        load_agent_spec(_FOLDER / name)

    assert reason in str(refused.value)
    assert refused.value.mend
