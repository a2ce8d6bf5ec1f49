"""docs/http.md: every command of it is run, in order, and prints what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.acceptance.http.http_rig import HttpRig, http_rig
from tests.acceptance.run_rig import RunRig
from tests.docs.fenced import PROJECT, blocks

from retinue.testing.scripts import Script

PAGE = PROJECT / "docs" / "http.md"
MARK = "@@@ the next command @@@"


@dataclass(frozen=True)
class Step:
    """A command of the page, and what it prints; `...` stands for anything."""

    command: str
    printed: str

    def is_matched_by(self, output: str) -> bool:
        """Whether the command printed this."""
        parts = (re.escape(part) for part in self.printed.split("..."))
        return re.fullmatch(".*".join(parts), output.strip(), re.DOTALL) is not None


def steps() -> list[Step]:
    """The commands of the page, in order."""
    found: list[Step] = []
    for block in blocks(PAGE, "console"):
        for text in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *rest = text.splitlines()
            while rest and rest[0].startswith("> "):
                command += "\n" + rest.pop(0)[2:]
            found.append(Step(command, "\n".join(rest).strip()))
    return found


class Shell:
    """A shell that runs one command after another and hands out what each printed."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc", "-u"],
            cwd=directory,
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def run(self, command: str) -> str:
        """What the command printed, errors too."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\necho\necho '{MARK}'\n")
        self._process.stdin.flush()
        lines: list[str] = []
        for line in self._process.stdout:
            if line.rstrip() == MARK:
                return "".join(lines)
            lines.append(line)
        raise AssertionError(f"the shell ended: {''.join(lines)}")

    def close(self) -> None:
        """Ends the shell, and whatever it runs."""
        self._process.kill()
        self._process.communicate()


def script(rig: RunRig, word: str) -> Script:
    """What the model of support says in runs with this word in their goal."""
    return rig.model.script("support", when=lambda request: word in request.messages[0].text)


def script_page(rig: RunRig) -> None:
    """Has the model behave as the page tells."""
    turn = script(rig, "headphones").call("search_handbook", {"query": "headphones"}).then("Within 14 days.")
    turn.then("Without the box as well.")
    script(rig, "Write to").hold("steered").call("search_handbook", {"query": "address"}).then("Liebe Kundin")
    script(rig, "Pay order").call("refund", {"order": 7}).then("${results}")
    script(rig, "Take all").hold("for ever").then("never")
    script(rig, "Sum up").then("It went well.")


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpRig]:
    """An API process and a worker with the page's agent."""
    directory = tmp_path_factory.mktemp("page")
    with http_rig(directory, agents="http_doc_agents", store_timeout_seconds=30.0) as web:
        web.api(store_timeout_seconds=30.0)
        web.rig.worker(concurrency=4)
        script_page(web.rig)
        yield web


def test_every_command_of_the_page_prints_what_the_page_says(web: HttpRig, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "RETINUE_URL": web.apis[0].url,
        "RETINUE_API_KEY": web.key(name="the page's"),
    }
    shell = Shell(tmp_path, environment)
    late = threading.Timer(100, shell.close)
    late.start()
    try:
        for step in steps():
            output = shell.run(step.command)
            assert step.is_matched_by(output), f"$ {step.command}\nprints\n{output}\nand not\n{step.printed}"
            if "/steers --json" in step.command:
                web.rig.model.release("steered")
    finally:
        late.cancel()
        shell.close()


def test_the_page_links_to_what_is_there() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", PAGE.read_text()):
        assert link.startswith("https://") or (PAGE.parent / link).exists(), link
