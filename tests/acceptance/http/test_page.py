"""The page in a real browser: a person watches runs and steers them, from the launch to the end."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from tests.acceptance.http.http_rig import HttpRig, http_rig
from tests.acceptance.http.page_rig import Page, watched

from retinue.client import SubagentHandle
from retinue.testing import Call, Turn, TurnUsage
from retinue.testing.scripts import Script

# The first test of a file waits for a server, a worker, an API process and a browser.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpRig]:
    prices = {"scripted": {"input": 1.0, "output": 2.0}}
    with http_rig(tmp_path_factory.mktemp("page"), agents="page_agents", prices=prices) as rig:
        rig.api()
        rig.rig.worker()
        yield rig


@pytest.fixture(scope="module")
def key(web: HttpRig) -> str:
    return web.key()


@pytest.fixture(autouse=True)
def seen(page: Page, key: str) -> Iterator[Page]:
    """The page, opened with a key; it must not complain, and must ask nobody else."""
    page.open(key)
    with watched(page):
        yield page


def script(web: HttpRig, agent: str, word: str) -> Script:
    return web.rig.model.script(agent, when=lambda request: word in request.messages[0].text)


def launch(web: HttpRig, agent: str, goal: str, **request: object) -> SubagentHandle:
    return web.rig.lifecycle("customer-42").launch(agent=agent, goal=goal, **request)


def test_a_key_in_a_link_lets_in_and_is_kept_in_the_tab_alone(page: Page, key: str) -> None:
    assert key not in page.chrome.current_url
    assert page.run("return Object.values(sessionStorage)") == [key]
    assert page.run("return [localStorage.length, document.cookie]") == [0, ""]
    assert page.chrome.get_cookies() == []
    page.chrome.refresh()
    page.one(".bar")
    page.click("button", "Log out")
    page.one("#key")
    assert page.run("return sessionStorage.length") == 0


def test_a_wrong_key_is_told_and_a_right_one_typed_lets_in(page: Page, key: str) -> None:
    page.click("button", "Log out")
    page.fill("#key", "rtn_wrong_key")
    page.click("button", "Open")
    page.wait_for_text(".outcome", "does not take this key")
    page.fill("#key", key)
    page.click("button", "Open")
    page.one(".bar")
    page.excuse(401)


def test_a_launched_run_grows_into_a_tree_and_is_told_to_its_end(page: Page, web: HttpRig) -> None:
    delegate = [Call("run_agent", {"name": "helper", "task": f"grow {n}"}) for n in (1, 2)]
    script(web, "lead", "grow").reply(
        lambda asked: "all is told" if asked.results else Turn(text="Two helpers.", calls=tuple(delegate))
    )
    script(web, "helper", "grow").call("look_up", {"query": "headphones"}).then("told").hold("grow")
    page.click("button", "Launch")
    page.choose("#launch-agent", "lead")
    page.fill("#launch-goal", "Let it grow")
    page.fill("#launch-session", "customer-42")
    page.click("dialog button", "Launch")

    page.wait_for_rows("lead", "  helper", "  helper")
    page.wait_for_text(".tree-row .phase", "waiting children")
    page.wait_for_text(".details h2", "lead")
    page.wait_for_text(".message", "Let it grow")
    page.wait_for_text(".message-call", "grow 1")
    page.tab("Children")
    page.wait(lambda: len(page.all(".family-run")) == 2, "two children")
    page.tab("Events")
    page.wait_for_text(".event-type", "run.suspended")

    page.click(".tree-row[aria-level='2']")
    page.wait_for_text(".details h2", "helper")
    page.tab("Tool calls")
    page.wait_for_text(".details tbody", "look_up")
    page.wait_for_text(".details tbody", "ms")
    page.click(".details button", "Parent run")
    page.wait_for_text(".details h2", "lead")

    web.rig.model.release("grow")
    page.wait_for_text(".result", "all is told")
    page.wait_for_text(".details-head .state", "succeeded")
    page.wait_for_text(".facts", "$0.0")
    page.wait(lambda: not page.all(".tree-row:not(.is-ended)"), "no live run")


def test_hidden_reasoning_is_not_shown(page: Page, web: HttpRig) -> None:
    model = script(web, "helper", "ponder").think("secretly").call("look_up", {"query": "x"})
    model.then("openly").think("secretly")
    handle = launch(web, "helper", "ponder")
    web.rig.result(web.rig.lifecycle(), handle)
    page.show_run(handle.subagent_id)
    page.wait_for_text(".message", "openly")
    assert "secretly" not in page.chrome.page_source


def test_what_the_model_writes_is_seen_before_it_is_done(page: Page, web: HttpRig) -> None:
    script(web, "helper", "slowly").say("word by word " * 20).pace(chunk_interval_s=0.25)
    handle = launch(web, "helper", "slowly")
    page.show_run(handle.subagent_id)
    page.wait_for_text(".is-writing", "word by word")
    page.wait_for_text(".result", "word by word")
    page.wait(lambda: not page.all(".is-writing"), "the whole text alone")
    page.wait_for_text(".message[data-role=assistant]", "word by word")


def test_a_steer_is_shown_as_delivered_once_the_model_has_it(page: Page, web: HttpRig) -> None:
    script(web, "helper", "steered").call("look_up", {"query": "a"}).hold("steered").then("as you say")
    handle = launch(web, "helper", "steered")
    page.show_run(handle.subagent_id)
    page.fill("[aria-label=Steer] textarea", "They live in Germany.")
    page.click(".steering button", "Send")
    page.wait_for_text(".steers", "They live in Germany.")
    page.wait_for_text(".fate", "queued")
    web.rig.model.release("steered")
    page.wait_for_text(".fate", "delivered in iteration 2")
    page.wait_for_text(".message", "They live in Germany.")


def test_an_approval_shows_exactly_what_will_be_done(page: Page, web: HttpRig) -> None:
    arguments = {"order": 7, "note": "line one\nline two\u202e\u200b"}
    script(web, "clerk", "approved").call("refund", arguments).then("${results}")
    handle = launch(web, "clerk", "approved")
    page.show_run(handle.subagent_id)
    shown = page.one(".decision .arguments").text
    assert json.loads(shown) == arguments
    assert "\\u202e\\u200b" in shown
    page.wait_for_text(".tree-row .asks", "1 to decide")
    page.click("button", "Approve")
    page.wait_for_text(".result", "refunded 7 line one")
    assert page.all(".decision") == []


def test_a_denial_gives_the_model_the_reason(page: Page, web: HttpRig) -> None:
    script(web, "clerk", "denied").call("refund", {"order": 8}).then("${results}")
    handle = launch(web, "clerk", "denied")
    page.show_run(handle.subagent_id)
    page.fill(".deny-with input", "too much")
    page.click("button", "Deny")
    page.wait_for_text(".result", "too much")


def test_a_question_is_answered(page: Page, web: HttpRig) -> None:
    script(web, "clerk", "asked").call("ask_user", {"question": "Which city?"}).then("${results}")
    handle = launch(web, "clerk", "asked")
    page.show_run(handle.subagent_id)
    page.wait_for_text(".decision .arguments", "Which city?")
    page.fill(".decision textarea", "Berlin")
    page.click("button", "Send answer")
    page.wait_for_text(".result", "Berlin")


def test_a_request_of_a_run_below_is_decided_at_the_one_above(page: Page, web: HttpRig) -> None:
    script(web, "desk", "below").call("run_agent", {"name": "clerk", "task": "below"}).then("done")
    script(web, "clerk", "below").call("refund", {"order": 1}).call("refund", {"order": 2}).then("paid")
    handle = launch(web, "desk", "below")
    page.show_run(handle.subagent_id)
    page.wait(lambda: len(page.all(".decision")) == 2, "two requests")
    page.click("button", "Approve")
    page.wait(lambda: len(page.all(".decision")) == 1, "one request")
    page.click("button", "Approve")
    page.wait_for_text(".result", "done")


def test_a_cancel_is_confirmed_and_reaches_the_tree(page: Page, web: HttpRig) -> None:
    script(web, "helper", "endless").hold("endless").say("never")
    handle = launch(web, "helper", "endless")
    page.show_run(handle.subagent_id)
    page.click(".actions button", "Cancel")
    page.click("dialog button", "Back")
    page.wait(lambda: not page.all("dialog"), "no dialog")
    assert web.rig.lifecycle("customer-42").status(handle).state.value == "RUNNING"
    page.click(".actions button", "Cancel")
    page.fill("dialog input", "not needed")
    page.click("dialog button", "Cancel the run")
    page.wait_for_text(".details-head .state", "cancelled")
    page.tab("Events")
    page.wait_for_text(".event", "not needed")


def test_an_interrupt_ends_a_run_with_what_it_has(page: Page, web: HttpRig) -> None:
    model = script(web, "helper", "enough").say("so far").call("look_up", {"query": "b"})
    model.then("more").hold("enough")
    handle = launch(web, "helper", "enough")
    page.show_run(handle.subagent_id)
    page.wait_for_text(".facts", "2 of 50")
    page.click(".actions button", "Interrupt")
    page.click("dialog button", "Interrupt")
    page.wait_for_text(".actions-part .outcome", "Interrupt accepted")
    web.rig.model.release("enough")
    page.wait_for_text(".details-head .state", "interrupted")
    page.wait_for_text(".result", "so far")


def test_an_ended_run_is_found_by_its_session_and_goes_on(page: Page, web: HttpRig) -> None:
    model = web.rig.model.script("helper", when=lambda asked: "first part" in asked.messages[0].text)
    model.reply(lambda asked: f"heard: {asked.last_user}")
    lifecycle = web.rig.lifecycle("customer-77")
    handle = lifecycle.launch(agent="helper", goal="first part")
    web.rig.result(lifecycle, handle)
    page.fill("[aria-label='Filter by session']", "customer-77")
    page.click(".filters .check")
    page.wait_for_text(".tree-row .state", "succeeded")
    page.click(".tree-row")
    page.fill("[aria-label='Next message']", "second part")
    page.click("button", "Continue")
    page.wait_for_text(".result", "heard: second part")
    assert handle.subagent_id not in page.chrome.current_url


def test_a_spent_budget_is_shown_and_raised(page: Page, web: HttpRig) -> None:
    used = TurnUsage(input_tokens=900, output_tokens=100)
    model = script(web, "helper", "costly").call("look_up", {"query": "c"}).usage(used)
    model.then("paid").usage(used)
    handle = launch(web, "helper", "costly", budget={"tokens": 1_000})
    page.show_run(handle.subagent_id)
    page.wait_for_text(".details-head .phase", "paused budget")
    page.wait_for_text(".cap", "of 1,000")
    page.fill(".raise input", "100000")
    page.click(".raise button", "Raise")
    page.wait_for_text(".result", "paid")


def test_filters_leave_what_one_looks_for(page: Page, web: HttpRig) -> None:
    script(web, "helper", "filtered").hold("filtered").say("x")
    script(web, "clerk", "filtered").call("refund", {"order": 9}).then("x")
    for agent in ("helper", "clerk"):
        launch(web, agent, "filtered")
    page.wait(lambda: set(page.rows()) >= {"helper", "clerk"}, "both runs")
    page.choose("[aria-label='Filter by agent']", "clerk")
    page.wait(lambda: set(page.rows()) == {"clerk"}, "the clerk alone")
    page.choose("[aria-label='Filter by agent']", "Any agent")
    page.choose("[aria-label='Filter by state']", "Waits for a human")
    page.wait(lambda: set(page.rows()) == {"clerk"}, "the one that waits")
    page.choose("[aria-label='Filter by state']", "Any state")
    page.fill("[aria-label='Filter by text']", "no such thing")
    page.wait_for_text(".tree-note", "No run passes the filters.")
    web.rig.model.release("filtered")


def test_a_key_that_may_only_read_is_shown_no_controls(page: Page, web: HttpRig) -> None:
    script(web, "clerk", "read only").call("refund", {"order": 10}).then("x")
    handle = launch(web, "clerk", "read only")
    page.open(web.key(scopes=["run:read"]))
    page.show_run(handle.subagent_id)
    page.wait_for_text(".decision .arguments", "10")
    assert [button.text for button in page.all("main button") if button.text not in ("Copy id", "×")] == [
        "Conversation",
        "Events",
        "Tool calls",
        "Children",
    ]
    assert [link.text for link in page.all("nav a")] == ["Runs"]
