"""The page by keyboard alone, at 400 px, to a screen reader, and in both colour schemes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from tests.acceptance.http.http_rig import HttpRig, http_rig
from tests.acceptance.http.page_rig import (
    DOWN,
    END,
    ENTER,
    ESCAPE,
    HOME,
    LEFT,
    NARROW,
    RIGHT,
    TAB,
    UP,
    WIDE,
    Page,
    overflow,
    watched,
)

from retinue.client import SubagentHandle
from retinue.testing import Call, Turn

pytestmark = pytest.mark.timeout(600)

VIEWS: Final = ("#/runs", "#/workers", "#/dead-letters")

# The contrast of each text that is shown with what is behind it, by WCAG 2.
CONTRASTS: Final = """
    const rgba = (text) => text.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b]
      .map((part) => part / 255)
      .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
      .reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0);
    const groundOf = (element) => {
      for (let each = element; each !== null; each = each.parentElement) {
        const found = rgba(getComputedStyle(each).backgroundColor);
        if (found.length === 3 || found[3] > 0) return found;
      }
      return rgba(getComputedStyle(document.documentElement).backgroundColor);
    };
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const element = walker.currentNode.parentElement;
      const isSeen = walker.currentNode.data.trim() && element.checkVisibility();
      if (!isSeen || element.closest(".only-heard, option")) continue;
      const [one, other] = [light(rgba(getComputedStyle(element).color)), light(groundOf(element))];
      const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
      found.push([contrast, element.className + ": " + walker.currentNode.data.trim().slice(0, 40)]);
    }
    return found;
"""
FOCUSED: Final = """
    return document.activeElement.closest(".tree-row")?.querySelector(".agent-name").textContent
"""


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpRig]:
    with http_rig(tmp_path_factory.mktemp("keys"), agents="page_agents") as rig:
        rig.api()
        rig.rig.worker()
        yield rig


@pytest.fixture(scope="module")
def tree(web: HttpRig) -> SubagentHandle:
    """A lead with two helpers at work, and a clerk that waits for an approval."""
    tasks = tuple(Call("run_agent", {"name": "helper", "task": f"part {n} " + "wide" * 40}) for n in (1, 2))
    web.rig.model.script("lead").reply(lambda _: Turn(text="Both at once. " * 30, calls=tasks))
    web.rig.model.script("helper").call("look_up", {"query": "q" * 200}).then("done").hold("never")
    web.rig.model.script("clerk").call("refund", {"order": 7, "note": "long" * 80}).then("done")
    lifecycle = web.rig.lifecycle("a-session-with-a-long-name-" + "x" * 90)
    clerk = lifecycle.launch(agent="clerk", goal="refund", budget={"tokens": 90_000})
    web.rig.wait_until(lambda: len(lifecycle.pending(clerk)) == 1, "the request")
    lead = lifecycle.launch(agent="lead", goal="A goal. " * 60)
    web.rig.wait_until(lambda: len(lifecycle.tree(lead)) == 3, "the helpers")
    return clerk


@pytest.fixture(autouse=True)
def seen(page: Page, web: HttpRig, tree: SubagentHandle) -> Iterator[Page]:
    page.size(*WIDE)
    page.open(web.key())
    page.wait_for_rows("lead", "  helper", "  helper", "clerk")
    with watched(page):
        yield page


def focus(page: Page) -> str | None:
    return page.run(FOCUSED)


def tab_to(page: Page, css: str) -> None:
    """Presses Tab until the focus is there."""
    for _ in range(40):
        if page.run("return document.activeElement.matches(arguments[0])", css):
            return
        page.press(TAB)
    pytest.fail(f"Tab does not lead to {css}")


def test_the_tree_is_walked_folded_and_opened_by_keys(page: Page) -> None:
    tab_to(page, ".tree-row")
    assert focus(page) == "lead"
    page.press(DOWN, DOWN)
    assert focus(page) == "helper"
    page.press(END)
    assert focus(page) == "clerk"
    page.press(HOME, RIGHT)
    assert focus(page) == "helper"
    page.press(LEFT)
    assert focus(page) == "lead"
    page.press(LEFT)
    page.wait_for_rows("lead", "clerk")
    assert focus(page) == "lead"
    page.press(DOWN, UP, RIGHT)
    page.wait_for_rows("lead", "  helper", "  helper", "clerk")
    assert focus(page) == "lead"
    page.press(ENTER)
    page.wait_for_text(".details h2", "lead")
    assert page.run("return document.activeElement.id") == "details-title"
    page.press(ESCAPE)
    page.wait(lambda: not page.all(".details"), "no details")
    assert focus(page) == "lead"
    outline = "return getComputedStyle(document.activeElement).outlineStyle"
    assert page.run(outline) == "solid"


def test_a_slash_leads_to_the_filter_and_letters_stay_there(page: Page) -> None:
    page.press("/")
    assert page.run("return document.activeElement.getAttribute('aria-label')") == "Filter by text"
    page.press("clerk/")
    page.wait(lambda: page.rows() == [], "nothing called clerk/")
    page.press(ESCAPE)


def test_a_call_is_denied_by_keys_alone(page: Page, web: HttpRig) -> None:
    lifecycle = web.rig.lifecycle("by keys")
    handle = lifecycle.launch(agent="clerk", goal="refund once more")
    page.wait_for_rows("clerk", "lead", "  helper", "  helper", "clerk")
    tab_to(page, ".tree-row")
    page.press(HOME, ENTER)
    page.one(".decision")
    tab_to(page, ".deny-with input")
    page.press("no", ENTER)
    web.rig.result(lifecycle, handle)
    page.wait_for_text(".result", "done")
    page.press(ESCAPE)
    page.wait(lambda: not page.all(".details"), "no details")


def test_a_dialog_keeps_the_focus_and_gives_it_back(page: Page, tree: SubagentHandle) -> None:
    page.show_run(tree.subagent_id)
    tab_to(page, ".actions button:last-child")
    page.press(ENTER)
    page.one("dialog")
    for _ in range(5):
        page.press(TAB)
        assert not page.run("return document.activeElement.closest('main, header')")
    page.press(ESCAPE)
    page.wait(lambda: not page.all("dialog"), "no dialog")
    assert page.run("return document.activeElement.textContent") == "Cancel"
    assert page.all(".details")


def test_the_tree_tells_a_screen_reader_where_one_is(page: Page) -> None:
    script = """
        const names = ["level", "posinset", "setsize", "expanded", "selected"];
        return [...document.querySelectorAll("[role=treegrid] .tree-row")]
          .map((row) => names.map((name) => row.getAttribute(`aria-${name}`)));
    """
    assert page.run(script) == [
        ["1", "1", "2", "true", "false"],
        ["2", "1", "2", None, "false"],
        ["2", "2", "2", None, "false"],
        ["1", "2", "2", None, "false"],
    ]
    assert page.one("[role=treegrid]").get_attribute("aria-rowcount") == "5"
    assert page.run("return document.querySelectorAll('.tree-row[tabindex=\"0\"]').length") == 1
    heard = page.run("return document.querySelectorAll('[aria-live], [role=status], [role=alert]').length")
    assert heard == 2, "the banner, and one for all else"


def test_every_field_and_button_has_a_name(page: Page, tree: SubagentHandle) -> None:
    script = """
        return [...document.querySelectorAll("button, input, select, textarea, meter, [role=tab]")]
          .filter((each) => each.checkVisibility())
          .filter((each) => !(each.ariaLabel || each.labels?.length || each.textContent.trim()))
          .map((each) => each.outerHTML)
    """
    page.show_run(tree.subagent_id)
    assert page.run(script) == []
    page.click("button", "Launch")
    page.choose("#launch-agent", "lead")
    assert page.run(script) == []
    page.press(ESCAPE)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_from_its_ground(page: Page, tree: SubagentHandle, scheme: str) -> None:
    page.scheme(scheme)
    seen: list[tuple[float, str]] = []
    for place in VIEWS:
        page.go(place)
        page.one(".tree-row, .page h1")
        seen += page.run(CONTRASTS)
    page.show_run(tree.subagent_id)
    for name in ("Conversation", "Events", "Tool calls"):
        page.tab(name)
        seen += page.run(CONTRASTS)
    page.click(".actions button", "Cancel")
    seen += page.run(CONTRASTS)
    page.press(ESCAPE)
    page.scheme("light")
    assert len(seen) > 100
    assert [each for each in seen if each[0] < 4.5] == []


def test_nothing_is_wider_than_400_px(page: Page, tree: SubagentHandle) -> None:
    page.size(*NARROW)
    for place in VIEWS:
        page.go(place)
        page.one(".tree-row, .page h1")
        assert overflow(page) <= 0, place
    page.show_run(tree.subagent_id)
    page.one(".decision")
    for name in ("Conversation", "Events", "Tool calls", "Children"):
        page.tab(name)
        assert overflow(page) <= 0, name
        assert (
            page.run("return document.querySelector('.details').getBoundingClientRect().right") <= NARROW[0]
        )
        assert overflow(page, ".details-body") <= 0, name
    page.click("[aria-label='Close details']")
    page.wait(lambda: page.all(".tree-row"), "the tree again")
    page.click("button", "Launch")
    assert page.one("dialog").rect["width"] < NARROW[0]
    page.press(ESCAPE)


def test_who_wants_no_motion_sees_none(page: Page) -> None:
    page.scheme("light")
    moving = "return document.getAnimations().filter((each) => each.playState === 'running').length"
    assert page.run(moving) == 0
