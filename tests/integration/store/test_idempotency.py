"""Requests that are done once: who does the work, who is told to wait, and what is answered later."""

from __future__ import annotations

import secrets
import threading
from typing import Any

import pytest
from tests.integration.store.stage import Runner, Stage

from retinue.store.operations.idempotency import (
    ATTEMPT_MS,
    KEPT_MS,
    Answered,
    Beginning,
    Begun,
    Outcome,
    Refused,
    begin_request,
    end_request,
    place,
)


class Sender:
    """Sends one request again and again."""

    def __init__(self, stage: Stage, runner: Runner) -> None:
        self.server = stage.server
        self.at = place(stage.tenant, "k" * 12, "/v1/runs", secrets.token_hex(4))
        self._runner: Any = runner

    def begin(self, attempt: str = "a1", *, fingerprint: str = "f" * 64, seed: str = "s1") -> Beginning:
        return self._runner.run(begin_request(self.at, fingerprint=fingerprint, attempt=attempt, seed=seed))

    def end(self, outcome: Outcome, *, attempt: str = "a1", answer: str = "") -> bool:
        return self._runner.run(end_request(self.at, attempt=attempt, outcome=outcome, answer=answer))

    def let_the_attempt_run_out(self) -> None:
        self.server.hincrby(self.at, "til", -ATTEMPT_MS - 1)


@pytest.fixture
def sender(stage: Stage, runner: Runner) -> Sender:
    return Sender(stage, runner)


def _begun(beginning: Beginning) -> Begun:
    assert isinstance(beginning, Begun), beginning
    return beginning


def test_the_first_works_a_second_waits_and_later_ones_get_its_answer(sender: Sender) -> None:
    first = _begun(sender.begin("a1"))
    assert (first.seed, first.is_repeat) == ("s1", False)
    assert sender.begin("a2", seed="s2") is Refused.BUSY
    assert sender.end(Outcome.DONE, answer='{"status":201}')
    assert sender.begin("a3") == Answered('{"status":201}')
    assert 0 < sender.server.pttl(sender.at) <= KEPT_MS


def test_another_request_under_the_same_key_is_refused_whatever_became_of_the_first(sender: Sender) -> None:
    sender.begin("a1")
    assert sender.begin("a2", fingerprint="e" * 64) is Refused.OTHER
    sender.end(Outcome.DONE, answer="{}")
    assert sender.begin("a3", fingerprint="e" * 64) is Refused.OTHER


def test_one_that_surely_did_nothing_frees_the_key_for_another_request(sender: Sender) -> None:
    sender.begin("a1")
    assert sender.end(Outcome.UNDONE)
    assert not sender.server.exists(sender.at)
    assert _begun(sender.begin("a2", fingerprint="e" * 64, seed="s2")).seed == "s2"


def test_after_one_that_broke_off_the_next_goes_on_with_the_same_seed(sender: Sender) -> None:
    first = _begun(sender.begin("a1"))
    sender.let_the_attempt_run_out()
    second = _begun(sender.begin("a2", seed="s2"))
    assert second == Begun("s1", first.begun_ms, is_repeat=True)
    assert sender.begin("a3", seed="s3") is Refused.BUSY


def test_one_whose_outcome_is_unknown_may_be_tried_again_at_once(sender: Sender) -> None:
    sender.begin("a1")
    assert sender.end(Outcome.UNKNOWN)
    assert _begun(sender.begin("a2", seed="s2")).is_repeat


def test_a_later_attempt_that_failed_does_not_free_the_key(sender: Sender) -> None:
    """The first may have launched: were the key free, another one would launch anew."""
    sender.begin("a1")
    sender.let_the_attempt_run_out()
    sender.begin("a2")
    assert sender.end(Outcome.UNDONE, attempt="a2")
    assert _begun(sender.begin("a3", seed="s3")) == Begun("s1", _begun(sender.begin("a3")).begun_ms, True)


def test_who_was_taken_for_dead_frees_nothing_and_may_still_bring_the_answer(sender: Sender) -> None:
    sender.begin("a1")
    sender.let_the_attempt_run_out()
    sender.begin("a2")
    assert not sender.end(Outcome.UNDONE, attempt="a1")
    assert sender.begin("a3") is Refused.BUSY
    assert sender.end(Outcome.DONE, attempt="a1", answer="[1]")
    assert not sender.end(Outcome.DONE, attempt="a2", answer="[2]")
    assert sender.begin("a3") == Answered("[1]")


@pytest.mark.parametrize("earlier", [0, 1])
def test_a_repeat_of_the_same_call_gets_the_same_reply(sender: Sender, earlier: int) -> None:
    if earlier:
        sender.begin("a0")
        sender.let_the_attempt_run_out()
    assert sender.begin("a1", seed="s9") == sender.begin("a1", seed="s9")


def test_an_end_without_a_beginning_changes_nothing(sender: Sender) -> None:
    assert not sender.end(Outcome.DONE, answer="{}")
    assert not sender.server.exists(sender.at)


def test_of_many_at_once_one_works(sender: Sender) -> None:
    replies: list[Beginning] = []
    threads = [
        threading.Thread(target=lambda n=n: replies.append(sender.begin(f"a{n}", seed=f"s{n}")))
        for n in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len([reply for reply in replies if isinstance(reply, Begun)]) == 1
    assert replies.count(Refused.BUSY) == 19


@pytest.mark.parametrize(
    "other",
    [
        ("t2", "k1", "/v1/runs", "key"),
        ("t1", "k2", "/v1/runs", "key"),
        ("t1", "k1", "/v1/runs/batch", "key"),
        ("t1", "k1", "/v1/runs", "yek"),
        ("t1k1", "", "/v1/runs", "key"),
    ],
)
def test_tenant_caller_route_and_key_tell_requests_apart(other: tuple[str, ...]) -> None:
    assert place("t1", "k1", "/v1/runs", "key") != place(*other)
