"""The page with 1,000 live runs that come and go: it shows them all, and answers at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest
from tests.acceptance.http.http_rig import HttpRig, http_rig
from tests.acceptance.http.page_rig import DOWN, END, ESCAPE, HOME, Page, watched

from retinue.client import SubagentHandle

pytestmark = pytest.mark.timeout(600)

CROWD: Final = 1_000
_BATCH: Final = 100
# No row but those in sight, and a few above and below, may be in the document.
_ROWS_MAX: Final = 80
SCROLLED: Final = "return document.querySelector('.tree-scroll').scrollTop"


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpRig]:
    with http_rig(tmp_path_factory.mktemp("crowd"), agents="page_agents") as rig:
        rig.api()
        # Its agents are known from now on; then nobody takes a run away from the crowd.
        worker = rig.rig.worker()
        worker.terminate()
        worker.wait(45)
        yield rig


@pytest.fixture(scope="module")
def crowd(web: HttpRig) -> list[SubagentHandle]:
    found: list[SubagentHandle] = []
    for start in range(0, CROWD, _BATCH):
        lifecycle = web.rig.lifecycle(f"crowd-{start // _BATCH}")
        requests = [{"agent": "helper", "goal": f"wait {start + n}"} for n in range(_BATCH)]
        found += lifecycle.launch_many(requests)
    return found


@contextmanager
def coming_and_going(web: HttpRig, crowd: list[SubagentHandle]) -> Iterator[None]:
    """Cancels the oldest and launches others all the time, so that each answer is another one."""
    over = threading.Event()
    lifecycle = web.rig.lifecycle("crowd-new")
    operator = type(lifecycle).operator(settings=web.rig.settings)
    oldest = iter(crowd)

    def churn() -> None:
        while not over.wait(0.2):
            lifecycle.launch(agent="helper", goal="come")
            operator.cancel(next(oldest))

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        operator.close()


def test_a_thousand_live_runs_are_shown_and_the_page_answers(
    page: Page, web: HttpRig, crowd: list[SubagentHandle]
) -> None:
    page.open(web.key())
    with watched(page), coming_and_going(web, crowd):
        page.run(
            "window.tasks = [];"
            "new PerformanceObserver((list) => tasks.push(...list.getEntries().map((each) => each.duration)))"
            ".observe({ type: 'longtask', buffered: true })"
        )
        page.wait_for_text(".total", "1,0")
        grid = page.one("[role=treegrid]")
        assert int(grid.get_attribute("aria-rowcount")) > CROWD
        # Clicks and keys while all of it changes.
        for _ in range(3):
            page.click(".tree-row")
            page.one(".details .facts")
            page.press(ESCAPE)
            page.wait(lambda: not page.all(".details"), "no details")
            page.press(END)
            page.wait(lambda: page.run(SCROLLED) > 30_000, "the end")
            page.press(HOME, DOWN)
            page.wait(lambda: page.run(SCROLLED) == 0, "the top")
            assert page.run("return document.querySelectorAll('.tree-row').length") <= _ROWS_MAX
        page.fill("[aria-label='Filter by session']", "crowd-new")
        page.wait(lambda: 0 < len(page.rows()) < _ROWS_MAX, "the new ones alone")
        tasks = page.run("return tasks")
        print(f"longest task: {max(tasks, default=0):.0f} ms of {len(tasks)} over 50 ms")
