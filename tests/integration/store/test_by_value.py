"""Runs whose agent stands in a document: any process may claim them, and the document is found again."""

from __future__ import annotations

from tests.integration.store.stage import Stage

from retinue.store.operations import reading
from retinue.store.replies import Claimed, NotClaimed


def test_any_process_may_claim_a_run_whose_agent_came_along(stage: Stage) -> None:
    plain, by_value = stage.root(agent="nobody's"), stage.root(agent="nobody's", document="d" * 64)

    assert stage.run(stage.claim_call(plain)) == NotClaimed("NOT_CAPABLE", "nobody's")
    claimed = stage.run(stage.claim_call(by_value))

    assert isinstance(claimed, Claimed)
    assert claimed.record.document == "d" * 64
    assert claimed.record.fields["cs"] == "l"
    assert stage.record(plain).document is None


def test_an_object_of_the_same_name_does_not_make_it_one(stage: Stage) -> None:
    claimed = stage.run(stage.claim_call(stage.root(agent="antique", document="d" * 64)))

    assert isinstance(claimed, Claimed)
    assert claimed.record.fields["cs"] == "l"


def test_a_launch_is_read_back_as_it_was_written(stage: Stage) -> None:
    root = stage.root(request_json='{"request":{"agent_spec":{"name":"x"}}}')

    assert stage.run(reading.read_request(root)) == '{"request":{"agent_spec":{"name":"x"}}}'
    stage.forget(root)
    assert stage.run(reading.read_request(root)) is None
