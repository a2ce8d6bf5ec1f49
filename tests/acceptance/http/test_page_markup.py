"""Whatever models and users write, the page shows as text: a name of markup in every field they control."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from tests.acceptance.http.http_rig import HttpRig, http_rig
from tests.acceptance.http.page_rig import Page, watched
from tests.acceptance.page_agents import MARKUP
from tests.integration.client.store_worker import StoreWorker

from retinue.client import SubagentHandle
from retinue.testing import Call, Turn

pytestmark = pytest.mark.timeout(600)

SCRIPT: Final = (
    "<script>document.title='owned'</script><svg onload=alert(3)><a href='javascript:alert(4)'>x</a>"
)
SESSION: Final = "<iframe srcdoc='<script>alert(5)</script>'></iframe>"
WORKER: Final = "<b>worker"
ARGUMENTS: Final = {"<i>name</i>": SCRIPT, "list": [MARKUP]}


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpRig]:
    with http_rig(tmp_path_factory.mktemp("markup"), agents="page_agents") as rig:
        rig.api()
        rig.rig.worker(name=WORKER)
        yield rig


@pytest.fixture(scope="module", autouse=True)
def opened(page: Page, web: HttpRig) -> None:
    page.open(web.key(name=MARKUP))


@pytest.fixture(autouse=True)
def seen(page: Page) -> Iterator[Page]:
    with watched(page):
        yield page
    assert page.run("return document.title").endswith("Retinue")
    # Nothing but what the page itself is made of.
    assert page.run("return document.querySelectorAll('img, iframe, svg, b, i, object, embed').length") == 0
    assert page.run("return document.querySelectorAll('script').length") == 1
    assert page.run("return document.querySelectorAll('a[href^=javascript]').length") == 0


@pytest.fixture(scope="module")
def run(web: HttpRig) -> SubagentHandle:
    """Calls a tool that fails with markup, then asks for an approval, then asks the user."""
    failing = Turn(text=SCRIPT, calls=(Call("<b>break</b>", {"text": SCRIPT}),))
    asking = Turn(
        text=MARKUP, calls=(Call(MARKUP, {"text": ARGUMENTS}), Call("ask_user", {"question": SCRIPT}))
    )
    web.rig.model.script("markup").reply(lambda asked: (failing, asking, SCRIPT)[min(2, asked.turn)])
    lifecycle = web.rig.lifecycle(SESSION)
    handle = lifecycle.launch(agent=MARKUP, goal=SCRIPT)
    web.rig.wait_until(lambda: len(lifecycle.pending(handle)) == 2, "both requests")
    return handle


def test_the_tree_shows_names_sessions_and_workers_as_text(page: Page, run: SubagentHandle) -> None:
    page.wait(lambda: page.rows() == [MARKUP], "the run")
    page.wait_for_text(".tree-row .cell-session", "<iframe")
    page.choose("[aria-label='Filter by agent']", MARKUP)
    page.wait(lambda: page.rows() == [MARKUP], "the run that passes")
    page.choose("[aria-label='Filter by agent']", "Any agent")
    page.wait_for_text(".whose", MARKUP)


def test_the_details_show_goal_calls_errors_and_requests_as_text(page: Page, run: SubagentHandle) -> None:
    page.show_run(run.subagent_id)
    page.wait_for_text(".details h2", MARKUP)
    page.wait_for_text(".message[data-role=user]", SCRIPT)
    page.wait_for_text(".message-call", "<b>break</b>")
    page.wait_for_text(".message[data-role=tool]", "javascript:alert(4)")
    page.wait_for_text(".decision .arguments", "<i>name</i>")
    page.wait_for_text(".decision .arguments", "javascript:alert(4)")
    page.wait(lambda: len(page.all(".decision")) == 2, "both requests")
    page.wait_for_text(".facts", "<iframe")
    page.tab("Tool calls")
    page.wait_for_text(".details tbody", "<b>break</b>")
    page.tab("Events")
    page.wait_for_text(".event-data", MARKUP)
    page.tab("Conversation")


def test_steers_and_refusals_are_shown_as_text(page: Page, run: SubagentHandle) -> None:
    page.fill("[aria-label=Steer] textarea", SCRIPT)
    page.click(".steering button", "Send")
    page.wait_for_text(".steer-text", SCRIPT)
    page.fill(".deny-with input", SCRIPT)
    page.click("button", "Deny")
    page.fill(".decision textarea", SCRIPT)
    page.click("button", "Send answer")
    page.wait_for_text(".result", SCRIPT)
    page.go("#/runs")


def test_a_launch_that_is_refused_says_so_as_text(page: Page) -> None:
    page.click("button", "Launch")
    page.choose("#launch-agent", MARKUP)
    page.wait_for_text("dialog .quiet", "<script>alert(2)</script>")
    page.fill("#launch-goal", SCRIPT)
    page.fill("#launch-session", "{" + SESSION + "}")
    page.click("dialog button", "Launch")
    page.wait_for_text("dialog .outcome", "session_id: has")
    page.click("dialog button", "Back")
    page.excuse(422)


def test_workers_are_shown_as_text(page: Page) -> None:
    page.go("#/workers")
    page.wait_for_text(".list tbody", WORKER)
    page.wait_for_text(".list tbody", MARKUP)
    page.click("button", "Drain")
    page.wait_for_text("dialog p", WORKER)
    page.click("dialog button", "Back")


def test_dead_letters_are_shown_as_text(page: Page, web: HttpRig) -> None:
    web.rig.workers[0].terminate()
    web.rig.workers[0].wait(45)
    lost = StoreWorker(web.rig.server.url)
    try:
        lost.advertise("support")
        handle = web.rig.lifecycle(SESSION).launch(agent="support", goal=SCRIPT)
        lost.give_up(handle)
    finally:
        lost.close()
    page.go("#/dead-letters")
    page.wait_for_text(".list tbody", "<iframe")
    page.click("button", "Show")
    page.wait_for_text(".letter-request", "javascript:alert(4)")


@pytest.mark.parametrize(
    "place", ["#/runs/<img src=x onerror=alert(1)>", "#/<script>", "#/runs/%3Cimg%3E", "#/runs/%"]
)
def test_an_address_of_markup_is_only_an_unknown_place(page: Page, place: str) -> None:
    page.go("#/runs")
    page.go(place)
    page.one(".tree-grid, .details .outcome")
    page.go("#/runs")
    page.excuse(404, 422)
