"""Agent Spec agents and groups on real workers: real documents, unchanged, and objects built in Python."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.integration.client.patience import wait_until

from retinue.client import ErrorClassification, SubagentLifecycle, SubagentLifecycleError, SubagentState
from retinue.store.call import RunKey
from retinue.store.connections.sync_link import SyncLink
from retinue.store.operations import control
from retinue.store.store import Store
from retinue.testing import Call, ScriptedRequest, ScriptedServer, Turn, TurnCount
from retinue.testing.clients import LifecycleFactory
from retinue.testing.workers import WorkerFactory

MAVERICK = "vllm-llama-4-maverick"
INPUTS = {"customer_id": "c-42", "company_policy_info": "Refunds within 30 days."}
_QUICK = ("--without-mingle", "--without-gossip")


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """The worker's directory, with real documents in it; skipped where they are not at hand."""
    root = os.environ.get("RETINUE_SHARED") or Path(__file__).parents[3] / "shared"
    folder = Path(root).resolve() / "data" / "agentspec" / "agent-spec"
    if not folder.is_dir():
        pytest.skip("no Agent Spec files: set RETINUE_SHARED")
    for name in ("howto_managerworkers.yaml", "howto_agents.yaml"):
        shutil.copyfile(folder / name, tmp_path / name)
    return tmp_path


@pytest.fixture
def spec_lifecycle(
    documents: Path,
    valkey_url: str,
    scripted_model: ScriptedServer,
    worker_process: WorkerFactory,
    lifecycle: LifecycleFactory,
) -> SubagentLifecycle:
    """A worker that has loaded the documents; their LLM, whose URL leads nowhere, is the scripted server."""
    override = {"url": scripted_model.base_url, "api_key": "spec-key"}
    worker_process(
        valkey_url,
        agents=["spec_documents"],
        settings={"llm_configs": {MAVERICK: override}},
        arguments=_QUICK,
    )
    return lifecycle(valkey_url, session_id="customer-42")


def send(recipient: str, message: str) -> Call:
    return Call("send_message", {"recipient": recipient, "message": message})


def has_prompt(beginning: str) -> object:
    return lambda asked: asked.system.startswith(beginning)


def test_a_real_group_answers_with_both_workers_replies_and_workers_remember_the_manager(
    spec_lifecycle: SubagentLifecycle, scripted_model: ScriptedServer
) -> None:
    def everything(asked: ScriptedRequest) -> str:
        return " | ".join(result.text for result in asked.results)

    first = [send("RefundSpecialist", "Refund order 7"), send("SatisfactionSurveyor", "Survey c-42")]
    second = [send("RefundSpecialist", "Which id?"), send("RefundSpecialist", "Which amount?")]
    manager = scripted_model.script("managerworkers")
    manager.then(Turn(calls=tuple(first))).then(Turn(calls=tuple(second))).then(everything)

    def refund(asked: ScriptedRequest) -> Turn | str:
        questions = [message.text for message in asked.messages if message.role == "user"]
        if len(questions) > 1:
            return f"{questions[-1]} was asked after {questions[:-1]}"
        if not asked.results:
            check = {"order_id": "7", "customer_id": "c-42"}
            return Turn(calls=(Call("Check_refund_eligibility", check),))
        if len(asked.results) == 1:
            pay = {"order_id": "7", "amount": 50, "reason": "damaged"}
            # As the document's own prompt spells it; the tool is called "Process refund".
            return Turn(calls=(Call("process_refund", pay),))
        return f"Refunded: {asked.results[-1].text}"

    scripted_model.script_where("refunds", has_prompt("You are a Refund Specialist")).reply(refund)
    survey = scripted_model.script_where("survey", has_prompt("You are a Satisfaction Surveyor"))
    survey.call("Record_survey_response", {"customer_id": "c-42", "satisfaction_score": None})
    survey.then("Declined: ${results}")

    result = spec_lifecycle.run(
        agent="managerworkers", goal="My order 7 arrived damaged.", inputs=INPUTS, wait_seconds=60
    )

    assert result.terminal_state is SubagentState.SUCCEEDED
    assert result.summary is not None
    replies = result.summary.split(" | ")
    assert replies[0] == 'Refunded: {"success":true,"refund_id":"R-7-50.0"}'
    assert replies[1] == 'Declined: {"success":true,"recorded":"c-42: None"}'
    # Both messages of the second turn go to the same worker: answered in order, each seeing what went before.
    assert replies[2] == "Which id? was asked after ['Refund order 7']"
    assert replies[3] == "Which amount? was asked after ['Refund order 7', 'Which id?']"
    asked = scripted_model.requests("managerworkers")[0].request
    assert asked is not None
    assert "Customer ID: c-42" in asked.system
    assert "Company policies: Refunds within 30 days." in asked.system
    assert asked.tools == ("send_message",)
    assert (asked.model, asked.headers["authorization"]) == ("llama-4-maverick", "Bearer spec-key")
    assert {record.agent for record in scripted_model.requests()} == {"managerworkers", "refunds", "survey"}
    workers = [node.agent for node in spec_lifecycle.tree(result.handle) if node.depth]
    assert sorted(workers) == ["RefundSpecialist"] * 3 + ["SatisfactionSurveyor"]


def test_a_group_without_its_inputs_is_refused_before_its_first_request(
    spec_lifecycle: SubagentLifecycle, scripted_model: ScriptedServer
) -> None:
    def refusal(inputs: dict[str, object]) -> str:
        try:
            result = spec_lifecycle.run(agent="managerworkers", goal="Hello", inputs=inputs, wait_seconds=30)
        except SubagentLifecycleError as refused:
            return f"{refused.field}: {refused}"
        # What only a worker can check: it has the document.
        assert result.error_classification is ErrorClassification.AGENT_ERROR
        assert result.error_message is not None
        return result.error_message

    nothing, one_of_two = refusal({}), refusal({"customer_id": "c-42"})

    assert "customer_id" in nothing
    assert "company_policy_info" in nothing
    assert "company_policy_info" in one_of_two
    assert "customer_id" not in one_of_two
    assert "customer_id as string" in refusal({**INPUTS, "customer_id": 42})
    assert scripted_model.count() == 0


def test_a_real_agent_runs_with_an_override_from_the_settings_file(
    documents: Path,
    valkey_url: str,
    scripted_model: ScriptedServer,
    worker_process: WorkerFactory,
    lifecycle: LifecycleFactory,
) -> None:
    (documents / "retinue.toml").write_text(
        f'[llm_configs.{MAVERICK}]\nurl = "{scripted_model.base_url}"\nmodel = "llama-5"\n'
    )
    worker_process(valkey_url, agents=["spec_documents"], arguments=_QUICK)
    writer = scripted_model.script_where("writer", has_prompt("Your a helpful writing assistant"))
    writer.call("get_synonyms", {"word": "big"}).call("pretty_formatting", {"paragraph": "a  b"})
    writer.then("${results}")

    result = lifecycle(valkey_url).run(
        agent="writer", goal="Another word for big?", inputs={"user_name": "Ann"}, wait_seconds=30
    )

    assert result.summary == '["big (synonym)"]; a b'
    asked = scripted_model.requests("writer")[0].request
    assert asked is not None
    assert "their name is Ann" in asked.system
    assert asked.model == "llama-5"


def test_objects_built_with_pyagentspec_run_as_they_are(
    valkey_url: str,
    scripted_model: ScriptedServer,
    worker_process: WorkerFactory,
    lifecycle: LifecycleFactory,
) -> None:
    worker_process(valkey_url, agents=["spec_objects"], model_url=scripted_model.base_url, arguments=_QUICK)
    desk = scripted_model.script("desk")
    desk.call("send_message", {"recipient": "clerk", "message": "What is a lamp?"})
    desk.call("send_message", {"recipient": "translator", "message": "lamp in German?"}).then("${results}")
    clerk = scripted_model.script("clerk", count=TurnCount.SINCE_USER)
    clerk.call("Look_up_price", {"article": "lamp"}).then("It costs ${results}")
    scripted_model.script("translator").then("Lampe")
    ours = lifecycle(valkey_url)
    inputs = {"shop": "Ann's shop"}

    group = ours.run(agent="desk", goal="A lamp, please", inputs=inputs, wait_seconds=30)
    alone = ours.run(agent="clerk", goal="What is a lamp?", inputs=inputs, wait_seconds=30)

    assert group.summary == "It costs 19.5; Lampe"
    assert alone.summary == "It costs 19.5"
    # The inputs of the group are those of its members too.
    systems = [record.request.system for record in scripted_model.requests("clerk") if record.request]
    assert all("The shop is Ann's shop." in system for system in systems)
    assert len(systems) == 4


def test_a_member_that_was_cut_goes_on_with_its_thread_and_one_that_still_works_takes_no_message(
    tmp_path: Path,
    valkey_url: str,
    scripted_model: ScriptedServer,
    worker_process: WorkerFactory,
    lifecycle: LifecycleFactory,
) -> None:
    worker_process(valkey_url, agents=["spec_objects"], model_url=scripted_model.base_url, arguments=_QUICK)
    office = scripted_model.script("office")
    office.call("send_message", {"recipient": "desk", "message": "first"})
    office.call("send_message", {"recipient": "desk", "message": "second"}).then("${results}")
    desk = scripted_model.script("desk", count=TurnCount.SINCE_USER)
    desk.call("send_message", {"recipient": "clerk", "message": "A price, please"}).then("${results}")
    clerk = scripted_model.script("clerk", count=TurnCount.SINCE_USER)
    clerk.call("Look_up_price", {"article": "rare"}).then("never said")
    ours = lifecycle(valkey_url)
    handle = ours.launch(agent="office", goal="Go", inputs={"shop": "Ann's shop"})

    def desk_waits() -> list[str]:
        nodes = [node for node in ours.tree(handle) if node.agent == "desk"]
        asked = (tmp_path / "asked").exists()
        return [node.run_id for node in nodes if asked and node.phase == "waiting_children"]

    wait_until(desk_waits)
    link = SyncLink(valkey_url)
    Store(link).run(control.cancel(RunKey("_", desk_waits()[0]), reason="cut"))
    link.close()

    assert not ours.wait(handle, timeout_seconds=30).timed_out
    (tmp_path / "price").touch()
    first = "[CANCELLED] This agent was cancelled before it finished."
    second = "[REFUSED] clerk is still working on an earlier message. Go on without it, or ask someone else."
    assert ours.result(handle).summary == f"{first}; {second}"
    ended = [
        ("clerk", "CANCELLED"),
        ("desk", "CANCELLED"),
        ("desk", "SUCCEEDED"),
        ("office", "SUCCEEDED"),
    ]
    wait_until(lambda: sorted((node.agent, node.state.value) for node in ours.tree(handle)) == ended)
    # The server refuses a history with a call that has no result, as the real APIs do.
    assert [record.problem for record in scripted_model.requests()] == [None] * scripted_model.count()
