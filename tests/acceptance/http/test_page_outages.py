"""The page when the API goes away and comes back: it says so, and goes on by itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.acceptance.http.http_rig import HttpRig, http_rig
from tests.acceptance.http.page_rig import Page

from retinue.client.dispatch.connections import connections_for
from retinue.contract import EventType
from retinue.store.operations.api_keys import revoke_key

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpRig]:
    with http_rig(tmp_path_factory.mktemp("outages"), agents="page_agents") as rig:
        rig.api()
        rig.rig.worker()
        yield rig


def sequences(page: Page) -> list[str]:
    """The events that are shown, oldest first, without their times."""
    rows = page.run("return [...document.querySelectorAll('.event')].map((row) => row.textContent)")
    return rows[::-1]


def test_the_page_goes_on_by_itself_after_the_api_was_killed(page: Page, web: HttpRig) -> None:
    model = web.rig.model.script("helper").call("look_up", {"query": "one"}).then().hold("first")
    model.call("look_up", {"query": "two"}).then("told").hold("second")
    lifecycle = web.rig.lifecycle("outage")
    handle = lifecycle.launch(agent="helper", goal="survive")
    page.open(web.key())
    page.run("window.isSamePage = true")
    page.show_run(handle.subagent_id)
    page.tab("Events")
    page.wait(lambda: len(sequences(page)) >= 5, "the first events")
    page.fill("[aria-label=Steer] textarea", "a draft")

    web.apis[0].kill()
    page.wait_for_text(".banner", "Connection lost")
    page.wait_for_text(".stream-state", "lost")
    page.wait_for_text(".readiness", "Unreachable")
    # Meanwhile the run goes on.
    web.rig.model.release("first")
    web.rig.wait_until(lambda: web.rig.model.in_flight() == 1, "the second request")
    web.rig.wait_for_event(lifecycle, handle, EventType.TOOL_FINISHED, count=2)

    web.apis[0].start_again()
    page.wait_for_text(".banner", "Connected again")
    page.wait_for_text(".stream-state", "Following")
    page.wait(lambda: not page.all(".banner"), "no banner")
    page.wait_for_text(".readiness", "Ready")
    web.rig.model.release("second")
    page.wait_for_text(".result", "told")
    assert page.run("return window.isSamePage")
    assert page.run("return document.querySelector('[aria-label=Steer] textarea').value") == "a draft"
    page.wait_for_text(".stream-state", "has ended")
    # None is missing, and none is there twice.
    shown = sequences(page)
    logged = list(lifecycle.events(handle))
    assert len(shown) == len(logged)
    for text, event in zip(shown, logged, strict=True):
        assert event.type.value in text


def test_a_key_that_is_given_during_an_outage_lets_in_afterwards(page: Page, web: HttpRig) -> None:
    page.open(web.key())
    page.run("document.querySelector('.bar').dataset.isOld = ''")
    other = web.key(name="given later")
    web.apis[0].kill()
    page.go(f"#key={other}")
    page.wait_for_text(".banner", "Connection lost")
    assert other not in page.chrome.current_url
    web.apis[0].start_again()
    page.wait_for_text(".bar:not([data-is-old])", "given later")
    page.wait(lambda: not page.all(".banner"), "no banner")


def test_a_key_that_is_revoked_leads_back_to_the_door(page: Page, web: HttpRig) -> None:
    key = web.key()
    page.open(key)
    connections_for(web.rig.settings).store.run(revoke_key(key.split("_")[1]))
    page.one("#key")
    page.wait_for_text(".outcome", "not take this key")
