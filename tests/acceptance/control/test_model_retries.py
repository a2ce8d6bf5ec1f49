"""Model calls that fail, on two worker processes: what is sent again by its class, when, and for how long."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from tests.acceptance.run_rig import RunRig, of_kind, run_rig

from retinue.client import SubagentLifecycle
from retinue.contract import ErrorClassification, EventType, SubagentResult, SubagentState
from retinue.store import keys
from retinue.testing.faults import (
    CutStream,
    DropConnection,
    ErrorReply,
    Fault,
    SlowStart,
    WrongJson,
    bad_request,
    context_too_long,
    overloaded,
    quota_exhausted,
    rate_limited,
    server_error,
    unauthorized,
    unavailable,
)

RETRY_S = 20.0
_goals = (f"goal {number}" for number in itertools.count(1))


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    """Two worker processes that wait 1 s for a silent server, and try again for 20 s."""
    directory = tmp_path_factory.mktemp("retries")
    limits = {"model_timeout_seconds": 1.0, "model_retry_seconds": RETRY_S}
    with run_rig(directory, agents="control.retry_agents", **limits) as rig:
        url = {"base_url": rig.model.base_url, "api_key": "test-key"}
        providers = {"openai": url, "hurried": {**url, "max_concurrency": 50}}
        for _ in range(2):
            rig.worker(settings={"providers": providers, "default_provider": "openai"})
        yield rig


@pytest.fixture
def lifecycle(rig: RunRig) -> SubagentLifecycle:
    """A client."""
    return rig.lifecycle()


def attempt(
    rig: RunRig, lifecycle: SubagentLifecycle, *faults: Fault, agent: str = "hand"
) -> tuple[SubagentResult, list[float], list[str]]:
    """Runs an agent whose model fails like that first.

    Returns:
        The result, when each request came, and the reason of each retry.
    """
    goal = next(_goals)
    script = rig.model.script(agent, when=lambda asked: asked.last_user == goal).say("done")
    for fault in faults:
        script.fault(fault)
    handle = lifecycle.launch(agent=agent, goal=goal)
    result = rig.result(lifecycle, handle)
    came = [
        asked.started_at
        for asked in rig.model.requests(agent)
        if asked.request is not None and asked.request.last_user == goal
    ]
    retried = of_kind(list(lifecycle.events(handle)), EventType.MODEL_RETRIED)
    return result, came, [str(event.data["reason"]) for event in retried]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (rate_limited(), ErrorClassification.MODEL_RATE_LIMITED),
        (overloaded(), ErrorClassification.MODEL_UNAVAILABLE),
        (unavailable(retry_after_s=1), ErrorClassification.MODEL_UNAVAILABLE),
        (server_error(), ErrorClassification.MODEL_UNAVAILABLE),
        (ErrorReply(408), ErrorClassification.MODEL_UNAVAILABLE),
        (DropConnection(), ErrorClassification.MODEL_UNAVAILABLE),
        (CutStream(), ErrorClassification.MODEL_UNAVAILABLE),
        (WrongJson(), ErrorClassification.MODEL_UNAVAILABLE),
        (SlowStart(30.0), ErrorClassification.MODEL_UNAVAILABLE),
    ],
    ids=["limited", "overloaded", "unavailable", "error", "timeout", "dropped", "cut", "json", "silent"],
)
def test_what_may_pass_is_sent_again(
    rig: RunRig, lifecycle: SubagentLifecycle, fault: Fault, reason: ErrorClassification
) -> None:
    result, came, retried = attempt(rig, lifecycle, fault, fault)
    assert result.summary == "done"
    assert len(came) == 3
    assert retried == [reason] * 2


@pytest.mark.parametrize(
    ("fault", "classification"),
    [
        (bad_request(), ErrorClassification.MODEL_REJECTED),
        (unauthorized(), ErrorClassification.MODEL_REJECTED),
        (quota_exhausted(), ErrorClassification.MODEL_REJECTED),
        (context_too_long(), ErrorClassification.CONTEXT_TOO_LONG),
        (bad_request(code="content_policy_violation"), ErrorClassification.CONTENT_REFUSED),
    ],
    ids=["bad", "unauthorized", "quota", "context", "refused"],
)
def test_what_no_waiting_mends_is_sent_once(
    rig: RunRig, lifecycle: SubagentLifecycle, fault: Fault, classification: ErrorClassification
) -> None:
    result, came, retried = attempt(rig, lifecycle, fault)
    assert result.terminal_state is SubagentState.FAILED
    assert result.error_classification is classification
    assert len(came) == 1
    assert retried == []


def _on(seconds: float) -> ErrorReply:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)
    return ErrorReply(429, "rate_limit_exceeded", headers={"Retry-After": date})


@pytest.mark.parametrize("written", ["seconds", "date"])
def test_a_retry_comes_no_sooner_than_the_server_asks(
    rig: RunRig, lifecycle: SubagentLifecycle, written: str
) -> None:
    fault = rate_limited(retry_after_s=2) if written == "seconds" else _on(4)
    result, (first, second), _ = attempt(rig, lifecycle, fault)
    assert result.summary == "done"
    # A date has no fractions of a second.
    assert second - first >= (2 if written == "seconds" else 1)


@pytest.mark.parametrize("fault", [rate_limited(retry_after_s=3_600), unavailable(retry_after_s=3_600)])
@pytest.mark.parametrize("agent", ["hand", "hurried"])
def test_a_wish_beyond_the_limit_ends_the_run_at_once(
    rig: RunRig, lifecycle: SubagentLifecycle, fault: ErrorReply, agent: str
) -> None:
    result, came, retried = attempt(rig, lifecycle, fault, agent=agent)
    expected = (
        ErrorClassification.MODEL_RATE_LIMITED
        if fault.status == 429
        else ErrorClassification.MODEL_UNAVAILABLE
    )
    assert result.error_classification is expected
    assert (len(came), retried) == (1, [])
    if agent == "hurried":
        # Nobody is held back for an hour either; the next may try once the limit is over.
        buckets = keys.provider_places("hurried")[0]
        assert rig.store.hget(buckets, "nd") == str(round(RETRY_S * 1000))
        rig.store.delete(buckets)


def test_an_interrupt_between_two_tries_sends_no_further_one(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script = rig.model.script("hand", when=lambda asked: asked.last_user == "interrupt me").say("never")
    script.fault(rate_limited(retry_after_s=15), times=None)
    handle = lifecycle.launch(agent="hand", goal="interrupt me")
    rig.wait_for_event(lifecycle, handle, EventType.MODEL_RETRIED)
    before = rig.model.count("hand")

    lifecycle.interrupt(handle)
    result = rig.result(lifecycle, handle, timeout_s=10)
    assert result.error_classification is ErrorClassification.INTERRUPT_REQUESTED
    assert rig.model.count("hand") == before
