"""The page's views of workers and dead letters, and what can be done there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.acceptance.http.http_rig import HttpRig, http_rig
from tests.acceptance.http.page_rig import Page, watched
from tests.integration.client.store_worker import StoreWorker

from retinue.client import SubagentHandle

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpRig]:
    with http_rig(tmp_path_factory.mktemp("operations"), agents="page_agents") as rig:
        rig.api()
        yield rig


@pytest.fixture(scope="module")
def lost(web: HttpRig) -> list[SubagentHandle]:
    """Two runs that were given up."""
    worker = StoreWorker(web.rig.server.url)
    worker.advertise("support")
    lifecycle = web.rig.lifecycle("lost")
    try:
        handles = [lifecycle.launch(agent="support", goal=f"lost {n}") for n in (1, 2)]
        for handle in handles:
            worker.give_up(handle)
    finally:
        worker.vanish()
        worker.close()
    return handles


@pytest.fixture(autouse=True)
def seen(page: Page, web: HttpRig) -> Iterator[Page]:
    page.open(web.key())
    with watched(page):
        yield page


def test_a_dead_letter_is_shown_discarded_and_replayed(
    page: Page, web: HttpRig, lost: list[SubagentHandle]
) -> None:
    page.click("nav a", "Dead letters")
    page.wait(lambda: len(page.all(".list tbody tr")) == 2, "both letters")
    page.wait_for_text(".list tbody", "worker lost")
    page.click(".list button", "Show")
    page.wait_for_text(".letter-request", "lost ")
    page.click(".list button", "Discard")
    page.click("dialog button", "Discard")
    page.wait_for_text(".outcome", "Discarded.")
    assert len(web.rig.lifecycle("lost").dead_letters()) == 1
    page.click(".list button", "Replay")
    page.wait_for_text(".details .message, .details .state", "pending")
    assert web.rig.lifecycle("lost").dead_letters() == ()
    page.click("nav a", "Dead letters")
    page.wait_for_text(".page", "No dead letters.")


def test_a_worker_is_seen_and_drained_after_a_confirmation(page: Page, web: HttpRig) -> None:
    worker = web.rig.worker(name="drained")
    page.click("nav a", "Workers")
    page.wait_for_text(".list tbody", "drained@")
    page.wait_for_text(".list tbody", "0 / 10")
    page.click("tr:has(td[data-state=RUNNING]) button", "Drain")
    page.click("dialog button", "Back")
    page.wait(lambda: not page.all("dialog"), "no dialog")
    page.click("tr:has(td[data-state=RUNNING]) button", "Drain")
    page.click("dialog button", "Drain")
    page.wait_for_text(".outcome", "was asked to drain")
    assert worker.wait(60) == 0
    page.wait(lambda: "drained@" not in page.text(".list tbody"), "no such worker")


def test_readiness_tells_why_it_is_not_given(page: Page, web: HttpRig) -> None:
    page.wait(lambda: page.all(".readiness[data-state=unready]"), "the red dot")
    page.click(".readiness summary")
    page.wait_for_text(".readiness-why", "worker")
    web.rig.worker(name="ready")
    page.wait(lambda: page.all(".readiness[data-state=ready]"), "the green dot")
