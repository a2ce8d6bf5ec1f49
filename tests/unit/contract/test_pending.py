"""What is asked of a human, and what became of a decision, as values."""

from __future__ import annotations

import json

import pytest

from retinue.contract import (
    DecisionRefusal,
    PendingRequest,
    RequestKind,
    SubagentDecision,
    parse_request_id,
    request_id,
)

RUN = "sa-p03-3cjiuinqveh76vtgvxocv7v7ou"


def test_a_request_id_tells_run_and_call() -> None:
    assert request_id(RUN, "12:3") == f"{RUN}/12:3"
    assert parse_request_id(request_id(RUN, "12:3")) == (RUN, "12:3")


@pytest.mark.parametrize(
    "value",
    [
        None, 7, b"", "", RUN, f"{RUN}/", f"{RUN}/1", f"{RUN}/1:", f"{RUN}/:1", f"{RUN}/1:2:3", f"{RUN}/1:-2",
        f"{RUN}/1:²", f"{RUN}/1:x", f"{RUN}/!1:2", f"{RUN}/1:2/3", f"x{RUN}/1:2", f"{RUN}/{'1' * 10}:0",
    ],
)  # fmt: skip
def test_anything_else_is_no_request_id(value: object) -> None:
    assert parse_request_id(value) is None


def test_a_request_is_plain_json_and_does_not_show_its_arguments_in_a_log() -> None:
    request = PendingRequest(
        request_id=f"{RUN}/1:0", run_id=RUN, kind=RequestKind.APPROVAL, agent="support", tool="refund",
        arguments={"card": "4111"}, argument_hash="a" * 64, call_id="c", asked_at=1.5, expires_at=2.5,
    )  # fmt: skip
    assert json.loads(json.dumps(request.to_dict())) == request.to_dict()
    assert request.to_dict()["kind"] == "approval"
    assert "4111" not in repr(request)


def test_a_decision_says_why_it_was_not_accepted() -> None:
    assert SubagentDecision(accepted=True).to_dict() == {"accepted": True, "reason": None}
    refused = SubagentDecision(accepted=False, reason=DecisionRefusal.EXPIRED)
    assert refused.to_dict() == {"accepted": False, "reason": "expired"}
    assert SubagentDecision.unknown(object()).reason is DecisionRefusal.UNKNOWN
