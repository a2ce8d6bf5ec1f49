"""What OpenAPI says of bodies and answers is what the contract checks and gives."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import BaseModel

from retinue.contract import (
    BudgetRaise,
    ErrorClassification,
    SubagentCancelResult,
    SubagentDecision,
    SubagentHandle,
    SubagentLaunchRequest,
    SubagentLifecycleError,
    SubagentPurgeResult,
    SubagentReconnectResult,
    SubagentResult,
    SubagentState,
    SubagentStatus,
    SubagentTerminalState,
    limits,
    request,
)
from retinue.contract.budget import CAP_CHECKS, Budget
from retinue.contract.checked import Checked
from retinue.http.schemas import bodies, control, events, launch, runs
from retinue.http.schemas.answer import Answer
from retinue.http.schemas.examples import EXAMPLES
from retinue.http.schemas.facts import BUDGET_FACTS, FACTS, REQUEST_FACTS

MODULES = (bodies, control, events, launch, runs, request)


def model(name: str) -> type[BaseModel]:
    """A model of these modules by its name."""
    found = next(value for module in MODULES if (value := getattr(module, name, None)) is not None)
    assert issubclass(found, BaseModel)
    return found


def test_a_launch_has_the_contracts_fields_and_a_session() -> None:
    assert set(launch.LaunchBody.model_fields) == {*SubagentLaunchRequest.model_fields, "session_id"}
    assert {*launch.LaunchBody.checks} == {*launch.LaunchBody.model_fields}
    for name, field in SubagentLaunchRequest.model_fields.items():
        assert launch.LaunchBody.model_fields[name].annotation == field.annotation


def test_a_launch_becomes_the_request_that_it_holds() -> None:
    body = launch.LaunchBody(session_id="s", goal="x", budget={"usd": "2.50"}, limits={"max_depth": 2})

    asked = SubagentLaunchRequest.parse(body)

    assert asked == SubagentLaunchRequest(goal="x", budget={"usd": 2.5}, limits={"max_depth": 2})


def test_an_agent_is_never_read_from_a_text() -> None:
    with pytest.raises(SubagentLifecycleError) as refused:
        launch.LaunchBody(session_id="s", goal="x", agent_spec='{"component_type": "Agent", "name": "a"}')
    assert refused.value.field == "agent_spec"
    with pytest.raises(SubagentLifecycleError) as refused:
        launch.LaunchBody(session_id="s", goal="x", agent="component_type: Agent\nname: a")
    assert refused.value.field == "agent"


def test_a_refused_request_of_several_is_named() -> None:
    with pytest.raises(SubagentLifecycleError) as refused:
        launch.LaunchManyBody(session_id="s", requests=[{"goal": "x"}, {"goal": "x", "role": "king"}])
    assert refused.value.field == "requests[1].role"


@pytest.mark.parametrize("name", [name for name in FACTS if name != "Budget"])
def test_every_field_of_a_body_is_described(name: str) -> None:
    assert set(FACTS[name]) == set(model(name).model_fields)
    assert all(fact["description"] for fact in FACTS[name].values())


def test_every_cap_of_a_budget_is_described() -> None:
    assert set(BUDGET_FACTS) == set(CAP_CHECKS)
    assert set(FACTS["Budget"]) == set(Budget.model_fields)


TEXTS = {name: fact["maxLength"] for name, fact in REQUEST_FACTS.items() if "maxLength" in fact}


@pytest.mark.parametrize("field", TEXTS)
def test_a_text_may_be_as_long_as_is_said_and_no_longer(field: str) -> None:
    fields = {"goal": "x"} | {field: "a" * TEXTS[field]}

    assert getattr(SubagentLaunchRequest.parse(fields), field) == fields[field]
    with pytest.raises(SubagentLifecycleError) as refused:
        SubagentLaunchRequest.parse({**fields, field: fields[field] + "a"})
    assert refused.value.field == field


NUMBERS = [
    (Budget, name, fact)
    for name, fact in BUDGET_FACTS.items()
] + [
    (request.LaunchLimits, name, fact) for name, fact in FACTS["LaunchLimits"].items()
]  # fmt: skip


@pytest.mark.parametrize(("kind", "field", "fact"), NUMBERS, ids=[field for _, field, _ in NUMBERS])
def test_a_number_may_be_as_large_as_is_said_and_no_larger(
    kind: type[Checked], field: str, fact: Mapping[str, Any]
) -> None:
    greatest, least = fact["maximum"], fact.get("minimum", fact.get("exclusiveMinimum"))

    assert getattr(kind(**{field: greatest}), field) == greatest
    for wrong in (greatest + 1, least if "exclusiveMinimum" in fact else least - 1):
        with pytest.raises(SubagentLifecycleError):
            kind(**{field: wrong})
    if "minimum" in fact:
        assert getattr(kind(**{field: least}), field) == least


def test_names_are_as_many_and_as_long_as_is_said() -> None:
    for field in ("blocked_tools", "allowed_toolsets"):
        fact = REQUEST_FACTS[field]
        names = [f"t{number}" for number in range(fact["maxItems"])]
        assert SubagentLaunchRequest.parse({"goal": "x", field: names})
        for wrong in ([*names, "one more"], ["a" * (fact["items"]["maxLength"] + 1)], [" "]):
            with pytest.raises(SubagentLifecycleError):
                SubagentLaunchRequest.parse({"goal": "x", field: wrong})


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name.endswith("Answer")])
def test_an_example_is_exactly_of_its_shape(name: str) -> None:
    check(name, EXAMPLES[name])


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name.endswith("Body")])
def test_an_example_of_a_body_is_taken(name: str) -> None:
    model(name)(**EXAMPLES[name])


RUN = SubagentHandle.from_dict(EXAMPLES["LaunchedAnswer"]["handle"])
ANSWERS = [
    ("EndAnswer", SubagentTerminalState.unknown("nonsense")),
    ("ResultAnswer", SubagentResult.unknown("nonsense")),
    ("ResultAnswer", SubagentResult.not_ready(RUN, SubagentState.PENDING)),
    (
        "ResultAnswer",
        SubagentResult.ended(
            RUN,
            SubagentState.FAILED,
            completed_at=1,
            structured_payload={"deep": [1, 2.0, None, "ü"]},
            error_classification=ErrorClassification.WORKER_LOST,
        ),
    ),
    ("CancelAnswer", SubagentCancelResult.unknown()),
    ("DecisionAnswer", SubagentDecision.unknown()),
    ("RaiseAnswer", BudgetRaise.unknown()),
    ("PurgeAnswer", SubagentPurgeResult.unknown()),
    ("ReconnectAnswer", SubagentReconnectResult.unknown()),
]


@pytest.mark.parametrize(("name", "answer"), ANSWERS, ids=[name for name, _ in ANSWERS])
def test_what_the_contract_answers_is_of_the_shape_that_is_said(name: str, answer: Any) -> None:
    check(name, answer.to_dict())


def test_a_status_has_exactly_the_contracts_members() -> None:
    assert set(runs.StatusAnswer.model_fields) == set(SubagentStatus.unknown().to_dict())


def check(name: str, value: Any) -> None:
    """Holds that a value is of a model's shape, and that nothing of it changes its form."""
    kind = model(name)
    assert issubclass(kind, Answer)
    text = json.dumps(value)
    assert json.loads(kind.model_validate_json(text).model_dump_json(exclude_unset=True)) == json.loads(text)


def test_the_longest_reason_is_told() -> None:
    kept = bodies.ReasonBody(reason="a" * 600).reason

    assert kept == "a" * limits.REASON_MAX_CHARS
    for wrong in ("\0", "\ud800", 7):
        with pytest.raises(SubagentLifecycleError):
            bodies.ReasonBody(reason=wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"runs": []},
        {"runs": "sa-p00-" + "a" * 26},
        {"runs": [7]},
        {"runs": ["x"] * 1_001},
        {"runs": ["x"], "mode": "some"},
        {"runs": ["x"], "timeout_seconds": 61},
        {"runs": ["x"], "timeout_seconds": -1},
        {"runs": ["x"], "timeout_seconds": float("nan")},
        {"runs": ["x"], "timeout_seconds": True},
    ],
)
def test_a_wait_beyond_its_bounds_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SubagentLifecycleError) as refused:
        bodies.WaitBody(**wrong)
    assert refused.value.limit


def test_a_cap_is_raised_to_a_number() -> None:
    assert bodies.BudgetBody(usd="2.50").caps == {"usd": 2.5}
    with pytest.raises(SubagentLifecycleError) as refused:
        bodies.BudgetBody(usd=2, tokens=None)
    assert refused.value.field == "tokens"
