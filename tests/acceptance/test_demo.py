"""`retinue demo`, as somebody runs it who has just cloned the project."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import pytest
from tests.acceptance.leftovers import Leftovers

from retinue.testing.processes import ChildProcess

# Workers import a good deal, and several test runs may share a machine.
_LIMIT_S = 110.0


class Demo:
    """A demo in a process of its own, with a directory of temporary files of its own."""

    def __init__(self, directory: Path, root: Path, *arguments: str) -> None:
        self.directory = directory / "tmp"
        self.directory.mkdir()
        self.leftovers = Leftovers(self.directory)
        environment = {
            **os.environ,
            **self.leftovers.environment,
            "TMPDIR": str(self.directory),
            # Settings of the desk, which must not lead it elsewhere.
            "RETINUE_STORE_URL": "redis://127.0.0.1:1/0",
            "RETINUE_AGENTS": "nothing.at.all",
        }
        self.process = ChildProcess(
            [sys.executable, "-m", "retinue.cli", "demo", *arguments],
            log=directory / "demo.log",
            cwd=root,
            env=environment,
        )


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are looked for in /proc")
def test_a_team_reviews_the_checkout_over_two_workers_and_leaves_nothing_behind(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    demo = Demo(tmp_path, pytestconfig.rootpath)
    with demo.process as process:
        assert process.wait(_LIMIT_S) == 0, process.log_text()
        said = process.log_text()

        # Each run of the tree: state, queue, worker process, Celery task.
        tree = said.partition("\ntree\n")[2].partition("\n\n")[0].splitlines()
        row = re.compile(r"SUCCEEDED +queue (\S+), worker pid (\d+), task (sa-p\d\d-[a-z2-7]{26})\.1")
        runs = [found for line in tree if (found := row.search(line))]
        assert len(runs) == len(tree) >= 3
        assert {found[1] for found in runs} == {"lead", "specialists"}
        assert len({found[2] for found in runs}) == 2
        assert len({found[3] for found in runs}) == len(runs)
        # What the tools really found stands in the result.
        result = said.partition("\nresult\n")[2]
        assert re.search(r" lines in [\d,]+ files: .*Python [\d,]+ lines", result)
        assert re.search(r"`\w+/retinue/\S+\.py` \(\d+ lines, ", result)
        assert re.search(r"^usage +\d+ model calls, \d+ tool calls, [\d,]+\+[\d,]+ tokens$", said, re.M)
        assert re.search(r"^elapsed +[\d.]+ s, \d+ runs on 2 worker processes$", said, re.M)
        assert demo.leftovers.list() == []
        assert list(demo.directory.iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are looked for in /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT], ids=lambda n: n.name)
def test_a_demo_that_is_ended_from_outside_leaves_no_process_behind(
    tmp_path: Path, pytestconfig: pytest.Config, number: signal.Signals
) -> None:
    demo = Demo(tmp_path, pytestconfig.rootpath)
    with demo.process as process:
        process.wait_for_log(r"^worker .*specialists", timeout_s=_LIMIT_S)
        process.signal(number)

        assert process.wait(60) != 0
        demo.leftovers.wait_until_none()


def test_a_demo_whose_run_fails_says_so_in_its_exit_code(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    example = tmp_path / "checkout_review"
    example.mkdir()
    for file in (pytestconfig.rootpath / "examples" / "checkout_review").iterdir():
        if file.is_file():
            (example / file.name).write_bytes(file.read_bytes())
    script = example / "script.py"
    # Its model refuses to answer one of the workers.
    script.write_text(script.read_text().replace(").reply(surveyor)", ").refuse('No.')"))

    demo = Demo(
        tmp_path, pytestconfig.rootpath, "--spec", str(example / "team.yaml"), "--checkout", str(tmp_path)
    )
    with demo.process as process:
        assert process.wait(_LIMIT_S) == 3
        assert re.search(r"^surveyor \(sa-\S+\) is FAILED$", process.log_text(), re.M)


def test_a_missing_example_is_said_with_its_mend(tmp_path: Path) -> None:
    demo = Demo(tmp_path, tmp_path, "--spec", str(tmp_path / "team.yaml"))
    with demo.process as process:
        assert process.wait(_LIMIT_S) == 1
        assert "lacks team.yaml" in process.log_text()
        assert "--spec" in process.log_text()
