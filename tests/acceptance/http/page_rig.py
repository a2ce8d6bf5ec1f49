"""A rig for the tests of the page: a real headless Chromium that looks at an API process."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

DEADLINE_S: Final = 90.0
_POLL_S: Final = 0.05
WIDE: Final = (1600, 1000)
NARROW: Final = (400, 800)
_FLAGS: Final = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu")
# What the browser itself asks for, without leaving the machine.
_LOCAL_SCHEMES: Final = ("data:", "chrome:", "about:", "blob:")


@contextmanager
def browser() -> Generator[Chrome]:
    """Debian's Chromium, without a window. Where there is none tests are skipped, except in CI: they fail."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        missing = "no chromium and chromedriver on this machine"
        if os.environ.get("CI"):
            pytest.fail(f"{missing}: CI must look at the page")
        pytest.skip(missing)
    options = ChromeOptions()
    options.binary_location = chromium
    with tempfile.TemporaryDirectory(prefix="retinue-browser-", ignore_cleanup_errors=True) as profile:
        for flag in (*_FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        made = Chrome(options=options, service=ChromeService(driver))
        try:
            yield made
        finally:
            made.quit()


class Page:
    """The page of one API process in one browser.

    Args:
        chrome: The browser.
        url: Of the API.
    """

    def __init__(self, chrome: Chrome, url: str) -> None:
        self.chrome = chrome
        self.url = url
        self.requested: list[str] = []
        self.complaints: list[str] = []
        self.size(*WIDE)

    def open(self, key: str | None = None, place: str = "") -> None:
        """Loads the page anew; with a key as a link gives it."""
        self.chrome.get("about:blank")
        self.chrome.get(f"{self.url}/#key={key}" if key else f"{self.url}/{place}")
        if key:
            self.wait(lambda: self.all(".bar"), "to be let in")
            if place:
                self.go(place)

    def go(self, place: str) -> None:
        """Follows a link within the page."""
        self.run("location.hash = arguments[0]", place)

    def leave(self) -> None:
        """Forgets the key."""
        self.run("sessionStorage.clear()")

    def size(self, width: int, height: int) -> None:
        """Makes the view so large, also narrower than a window can be."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def scheme(self, name: str) -> None:
        """Prefers light or dark colours."""
        features = [
            {"name": "prefers-color-scheme", "value": name},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def run(self, script: str, *arguments: Any) -> Any:
        """Runs a script in the page, and gives what it returns."""
        return self.chrome.execute_script(script, *arguments)

    def all(self, css: str) -> list[WebElement]:
        """The elements that are shown."""
        return [each for each in self.chrome.find_elements(By.CSS_SELECTOR, css) if each.is_displayed()]

    def one(self, css: str) -> WebElement:
        """The first element that is shown, once there is one."""
        self.wait(lambda: self.all(css), css)
        return self.all(css)[0]

    def text(self, css: str) -> str:
        """The text of the first such element, as far as it is shown; "" = there is none."""
        found = self.all(css)
        return found[0].text if found else ""

    def wait(self, true: Callable[[], object], what: str, *, timeout_s: float = DEADLINE_S) -> None:
        """Returns once something is so; what is being replaced meanwhile is looked for again."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                if true():
                    return
            except (StaleElementReferenceException, NoSuchElementException):
                pass
            if time.monotonic() > deadline:
                shown = self.text("body")[:2_000]
                pytest.fail(f"not within {timeout_s} s: {what}\nThe page shows:\n{shown}")
            time.sleep(_POLL_S)

    def wait_for_text(self, css: str, text: str) -> None:
        """Returns once an element that is shown holds a text."""
        self.wait(lambda: any(text in each.text for each in self.all(css)), f"{text!r} in {css}")

    def click(self, css: str, text: str | None = None) -> None:
        """Clicks the element, or the first of them that bears the text, once it can be clicked."""

        def done() -> bool:
            for each in self.all(css):
                if (text is None or each.text.strip() == text) and each.is_enabled():
                    each.click()
                    return True
            return False

        self.wait(done, f"{css} {text or ''} to click")

    def fill(self, css: str, text: str) -> None:
        """Puts a text into a field."""
        field = self.one(css)
        field.clear()
        field.send_keys(text)

    def choose(self, css: str, text: str) -> None:
        """Chooses an option by its words, once it is on offer."""
        script = """
            const [select, text] = arguments;
            const option = [...select.options].find((each) => each.textContent === text);
            if (option === undefined) return false;
            select.value = option.value;
            select.dispatchEvent(new Event("change", { bubbles: true }));
            return true;
        """
        self.wait(lambda: self.run(script, self.one(css), text), f"the option {text} of {css}")

    def press(self, *keys: str) -> None:
        """Presses keys, wherever the focus is."""
        for key in keys:
            self.chrome.switch_to.active_element.send_keys(key)

    def rows(self) -> list[str]:
        """The agents of the tree's rows, from top to bottom, with two blanks for each level."""
        script = """
            return [...document.querySelectorAll(".tree-row")]
              .sort((one, other) => one.getAttribute("aria-rowindex") - other.getAttribute("aria-rowindex"))
              .map((row) => "  ".repeat(row.getAttribute("aria-level") - 1)
                + row.querySelector(".agent-name").textContent)
        """
        return self.run(script)

    def wait_for_rows(self, *expected: str) -> None:
        """Returns once the tree has just these rows."""
        self.wait(lambda: self.rows() == list(expected), f"the rows {expected}, not {self.rows()}")

    def show_run(self, run_id: str) -> None:
        """Opens a run's details, and returns once they are loaded."""
        self.go(f"#/runs/{run_id}")
        self.wait(lambda: self.text(".details .facts"), f"the details of {run_id}")

    def tab(self, name: str) -> None:
        """Shows one of the tabs of the details."""
        self.click("[role=tab]", name)

    def import_from(self, module: str, script: str, *arguments: Any) -> Any:
        """Runs a script with a module of the page as `m` and `args`, and gives what it returns."""
        whole = f"""
            const [module, args, done] = arguments;
            const main = document.querySelector("script[type=module]").src;
            import(new URL(module, main))
              .then((m) => {{ {script} }})
              .then((value) => done({{ value }}), (fault) => done({{ fault: String(fault) }}));
        """
        answer = self.chrome.execute_async_script(whole, module, arguments)
        assert "fault" not in answer, answer
        return answer["value"]

    def listen(self) -> None:
        """Takes in what the browser has noted since: its complaints, and which addresses it asked."""
        for entry in self.chrome.get_log("browser"):
            # That the service is not ready is an answer like any other, but the browser notes its 503.
            if entry["level"] in ("SEVERE", "WARNING") and f"{self.url}/readyz" not in entry["message"]:
                self.complaints.append(entry["message"])
        for entry in self.chrome.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.requested.append(message["params"]["request"]["url"])

    def excuse(self, *statuses: int) -> None:
        """Drops what the browser itself notes of answers that a test has asked for."""
        self.listen()
        notes = tuple(f"status of {status}" for status in statuses)
        self.complaints[:] = [text for text in self.complaints if not any(note in text for note in notes)]

    def foreign_requests(self) -> list[str]:
        """What the browser has asked of anybody but the API."""
        self.listen()
        ours = (f"{self.url}/", *_LOCAL_SCHEMES)
        return [url for url in self.requested if not url.startswith(ours)]


@contextmanager
def watched(page: Page) -> Iterator[Page]:
    """A page that must have nothing to complain of, and must have asked nobody else, at the end."""
    page.listen()
    page.complaints.clear()
    yield page
    assert page.foreign_requests() == []
    assert page.complaints == []


def overflow(page: Page, css: str = "html") -> int:
    """By how many pixels the content of an element that is shown is wider than the element."""
    return page.run("const [each] = arguments; return each.scrollWidth - each.clientWidth", page.one(css))


ESCAPE, ENTER, TAB = Keys.ESCAPE, Keys.ENTER, Keys.TAB
DOWN, UP, LEFT, RIGHT, HOME, END = (
    Keys.ARROW_DOWN,
    Keys.ARROW_UP,
    Keys.ARROW_LEFT,
    Keys.ARROW_RIGHT,
    Keys.HOME,
    Keys.END,
)
