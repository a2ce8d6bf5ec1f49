"""Writes the pictures of the page: `make screenshots`. Everything on them is real but the model."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Final

from tests.acceptance.http.http_rig import HttpRig, http_rig
from tests.acceptance.http.page_rig import Page, browser

from retinue.client import SubagentHandle
from retinue.testing import Call, Turn, TurnUsage

PICTURES: Final = Path(__file__).parents[3] / "docs" / "images"
WIDE: Final = (1440, 900)
NARROW: Final = (400, 800)
NEVER: Final = "never"
_MOST_BYTES: Final = 200_000


def turn(text: str, *calls: Call, used: tuple[int, int], held: bool = False) -> Turn:
    usage = TurnUsage(input_tokens=used[0], output_tokens=used[1])
    return Turn(text=text, calls=calls, usage=usage, gate=NEVER if held else None)


def delegate(agent: str, task: str) -> Call:
    return Call("run_agent", {"name": agent, "task": task})


def write_scripts(web: HttpRig) -> None:
    """What the models say until they wait: for each other, for a human, or for ever."""

    def says(agent: str, *turns: Turn, when: str = "") -> None:
        model = web.rig.model.script(agent, when=lambda request: when in request.messages[0].text)
        for each in turns:
            model.then(each)

    refund = {
        "order": 9001,
        "amount_eur": 89.9,
        "reason": "Returned within 14 days, hygiene seal whole",
    }
    question = "May opened headphones be returned, and until when?"
    says(
        "support",
        turn(
            "I look up the rules and the order at the same time.",
            delegate("researcher", question),
            delegate("refund-clerk", "Pay order 9001 back if the rules allow it."),
            used=(2_140, 180),
        ),
    )
    says(
        "researcher",
        turn("", Call("search_handbook", {"query": "return opened headphones"}), used=(1_310, 64)),
        turn("", used=(1_920, 90), held=True),
    )
    says(
        "refund-clerk",
        turn("First the order itself.", Call("read_order", {"order": 9001}), used=(1_480, 52)),
        turn("The seal is whole, so the order is paid back.", Call("refund", refund), used=(1_730, 96)),
    )
    says(
        "review-lead",
        turn(
            "Three readers at once.",
            delegate("surveyor", "How large is the checkout, by language?"),
            delegate("code-reader", "Outline the largest modules of the store."),
            delegate("code-reader", "Outline the largest modules of the worker."),
            used=(18_400, 420),
        ),
    )
    says("surveyor", turn("", used=(1, 1), held=True))
    says("code-reader", turn("", Call("outline_module", {"path": "store/reading.py"}), used=(22_800, 310)))
    topics = ("prices", "suppliers", "open complaints")
    says(
        "briefing",
        turn("", *(delegate("researcher", f"What is new: {topic}?") for topic in topics), used=(9_700, 260)),
    )
    says("translator", turn("", used=(1, 1), held=True))


def launch(web: HttpRig) -> SubagentHandle:
    """Starts the runs; gives the one that asks to be approved."""
    rig = web.rig

    def start(session: str, agent: str, goal: str, **more: Any) -> SubagentHandle:
        handle = rig.lifecycle(session).launch(agent=agent, goal=goal, **more)
        rig.wait_until(lambda: rig.lifecycle(session).status(handle).iteration > 0, f"{agent} to begin")
        return handle

    for session in ("docs-de", "docs-fr"):
        start(session, "translator", "Translate the release notes.")
    start("weekly", "briefing", "Write the briefing of the week.")
    start("checkout-17", "review-lead", "Review the checkout.", budget={"usd": 5.0})
    budget = {"usd": 0.5, "tokens": 50_000}
    desk = start("customer-42", "support", "May I return my opened headphones?", budget=budget)
    lifecycle = rig.lifecycle("customer-42")
    rig.wait_until(lambda: len(lifecycle.pending(desk)) == 1, "the request")
    return rig.handle_of(lifecycle.pending(desk)[0].run_id)


def take(page: Page, name: str, size: tuple[int, int], scheme: str) -> None:
    """Writes one picture."""
    page.size(*size)
    page.scheme(scheme)
    path = PICTURES / f"{name}.png"
    page.run("document.activeElement.blur()")
    page.chrome.save_screenshot(str(path))
    length = path.stat().st_size
    print(f"{path.relative_to(Path.cwd())}: {length:,} bytes")
    assert length < _MOST_BYTES, "a README should load fast"


def main() -> None:
    """Starts everything, and ends it again."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    prices = {"gpt-5-mini": {"input": 0.25, "output": 2.0}}
    with (
        tempfile.TemporaryDirectory(prefix="retinue-screenshots-") as folder,
        http_rig(Path(folder), agents="screenshot_agents", prices=prices) as web,
        browser() as chrome,
    ):
        write_scripts(web)
        web.api()
        for name in ("w1", "w2"):
            web.rig.worker(name=name)
        asking = launch(web)
        page = Page(chrome, web.apis[0].url)
        page.size(*WIDE)
        page.open(web.key(name="operations"))
        page.wait(lambda: len(page.rows()) >= 12, "the whole tree")
        page.wait(lambda: page.all(".readiness[data-state=ready]"), "the green dot")
        page.show_run(asking.subagent_id)
        page.one(".decision")
        page.wait_for_text(".message", "the order is paid back")
        # Not all at their first second.
        page.wait(
            lambda: page.text(".tree-row .cell-age") in {f"{age}s" for age in range(12, 60)}, "some age"
        )
        take(page, "page-light", WIDE, "light")
        take(page, "page-dark", WIDE, "dark")
        page.go("#/runs")
        page.size(*NARROW)
        page.one(".tree-row")
        take(page, "page-narrow", NARROW, "light")


if __name__ == "__main__":
    main()
