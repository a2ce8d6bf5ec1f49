"""Which queue and list a wake-up goes to."""

from __future__ import annotations

import pytest
from kombu.transport.redis import Channel

from retinue.broker.routes import PRIORITY_STEPS, private_queue, queue_for, queue_key, queue_keys
from retinue.broker.settings import Settings


def settings(**routes: str) -> Settings:
    return Settings.read(store_url="redis://localhost:6379/0", queue="main", routes=routes)


def test_an_exact_name_wins_over_an_earlier_pattern() -> None:
    routes = {"triage_*": "fast", "triage_slow": "bulk"}

    assert queue_for("triage_slow", settings(**routes)) == "bulk"


def test_the_first_pattern_that_matches_wins() -> None:
    routes = {"triage_*": "fast", "*": "rest"}

    assert queue_for("triage_mail", settings(**routes)) == "fast"
    assert queue_for("writer", settings(**routes)) == "rest"


def test_patterns_tell_upper_from_lower_case() -> None:
    assert queue_for("Triage_mail", settings(**{"triage_*": "fast"})) == "main"


def test_a_route_wins_over_the_agents_own_queue() -> None:
    assert queue_for("researcher", settings(researcher="gpu"), "slow") == "gpu"


def test_an_agents_own_queue_wins_over_the_default() -> None:
    assert queue_for("researcher", settings(writer="gpu"), "slow") == "slow"


def test_an_agent_without_any_queue_waits_in_the_default_one() -> None:
    assert queue_for("researcher", settings()) == "main"


@pytest.mark.parametrize("priority", range(10))
def test_the_list_of_a_priority_is_the_one_that_kombu_pops(priority: int) -> None:
    # Of kombu's channel only the naming is used, which needs no connection.
    channel = Channel.__new__(Channel)

    assert queue_key("main", priority) == channel._q_for_pri("main", priority)


def test_a_priority_outside_the_scale_is_served_at_its_end() -> None:
    assert queue_key("main", -1) == "main"
    assert queue_key("main", 99) == queue_key("main", 9)


def test_a_queue_has_a_list_for_each_step_the_first_served_first() -> None:
    assert queue_keys("main") == tuple(queue_key("main", step) for step in PRIORITY_STEPS)
    assert queue_keys("main", global_keyprefix="app:")[0] == "app:main"


def test_the_prefix_of_all_lists_is_not_taken_by_position() -> None:
    with pytest.raises(TypeError):
        queue_keys("main", 6)  # pyright: ignore[reportCallIssue]


def test_a_process_has_a_queue_of_its_own() -> None:
    assert private_queue("0a1b") == "retinue.worker.0a1b"
