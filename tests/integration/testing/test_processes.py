"""Child processes of tests: what they wrote is seen, signals arrive, and they never outlive the tests."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from retinue.testing.processes import ChildProcess, ProcessFailedError

# Says that it is up, then counts, so that a test can see whether it makes progress.
COUNTER = """
import itertools, time
print("up", flush=True)
for number in itertools.count(1):
    print("tick", number, flush=True)
    time.sleep(0.01)
"""
# A process that starts another, says both ids, and waits.
FAMILY = """
import subprocess, sys, os, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("family", os.getpid(), child.pid, flush=True)
time.sleep(600)
"""
# A test process that owns a family, and is then killed from outside.
OWNER = """
import sys, time
from pathlib import Path
from retinue.testing.processes import ChildProcess
process = ChildProcess([sys.executable, "-c", sys.argv[1]], log=Path(sys.argv[2]))
print(process.wait_for_log(r"family (\\d+) (\\d+)").group(0), flush=True)
time.sleep(600)
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], ChildProcess]]:
    started: list[ChildProcess] = []

    def start_program(program: str) -> ChildProcess:
        process = ChildProcess([sys.executable, "-c", program], log=tmp_path / f"{len(started)}.log")
        started.append(process)
        return process

    yield start_program
    for process in started:
        process.close()


def _exists(pid: int) -> bool:
    # A zombie that nobody has reaped yet has ended all the same.
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _wait_until_gone(*pids: int, timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while any(_exists(pid) for pid in pids):
        assert time.monotonic() < deadline, f"still there: {[pid for pid in pids if _exists(pid)]}"
        time.sleep(0.01)


def test_a_line_of_the_log_is_waited_for(start: Callable[[str], ChildProcess]) -> None:
    process = start(COUNTER)

    assert process.wait_for_log(r"^tick (\d+)$", count=3).group(1) == "3"
    assert process.running


def test_a_process_that_ends_before_the_line_is_an_error_with_its_last_words(
    start: Callable[[str], ChildProcess],
) -> None:
    process = start("raise SystemExit('no configuration')")

    with pytest.raises(ProcessFailedError, match="ended with 1 before it wrote 'ready'") as caught:
        process.wait_for_log("ready")

    assert "no configuration" in caught.value.log_tail


def test_a_line_written_just_before_the_end_is_seen(start: Callable[[str], ChildProcess]) -> None:
    process = start("print('last words')")

    assert process.wait() == 0
    assert process.wait_for_log("last words")


def test_a_line_that_does_not_come_is_an_error_after_the_deadline(
    start: Callable[[str], ChildProcess],
) -> None:
    process = start(COUNTER)

    with pytest.raises(ProcessFailedError, match=r"did not write 'ready' within 0\.2 s"):
        process.wait_for_log("ready", timeout_s=0.2)


def test_a_process_that_does_not_end_is_an_error_after_the_deadline(
    start: Callable[[str], ChildProcess],
) -> None:
    with pytest.raises(ProcessFailedError, match=r"still runs after 0\.1 s"):
        start(COUNTER).wait(timeout_s=0.1)


def test_the_error_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(ProcessFailedError("it ended", log_tail="no configuration")))

    assert str(error) == "it ended; the end of its log:\nno configuration"


def test_a_paused_process_makes_no_progress_until_it_is_resumed(
    start: Callable[[str], ChildProcess],
) -> None:
    process = start(COUNTER)
    process.wait_for_log("tick 1")

    process.pause()
    written = process.log_text()
    with pytest.raises(ProcessFailedError):  # 20 ticks' time in which nothing is added
        process.wait_for_log("tick", count=written.count("tick") + 1, timeout_s=0.2)
    assert process.running

    process.resume()
    process.wait_for_log("tick", count=written.count("tick") + 1)


def test_pausing_a_process_that_has_ended_keeps_its_exit_code(start: Callable[[str], ChildProcess]) -> None:
    process = start("raise SystemExit(3)")
    process.wait()

    process.pause()

    assert process.wait() == 3


def test_terminate_asks_and_kill_does_not(start: Callable[[str], ChildProcess]) -> None:
    asked, killed = start(COUNTER), start(COUNTER)
    for process in (asked, killed):
        process.wait_for_log("up")

    asked.terminate()

    assert asked.wait() == -signal.SIGTERM
    assert killed.kill() == -signal.SIGKILL


def test_kill_leaves_what_the_process_started_and_close_does_not(
    start: Callable[[str], ChildProcess],
) -> None:
    process = start(FAMILY)
    child = int(process.wait_for_log(r"family \d+ (\d+)").group(1))

    process.kill()
    assert _exists(child)
    process.close()

    _wait_until_gone(child)


def test_close_ends_a_paused_process(start: Callable[[str], ChildProcess]) -> None:
    process = start(COUNTER)
    process.wait_for_log("up")
    process.pause()

    process.close()
    process.close()

    assert not process.running


@pytest.mark.parametrize("fatal", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_and_its_children_die_with_the_test_process(tmp_path: Path, fatal: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, FAMILY, str(tmp_path / "family.log")], stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        family = [int(pid) for pid in owner.stdout.readline().split()[1:]]
        assert len(family) == 2
        assert all(_exists(pid) for pid in family)

        os.kill(owner.pid, fatal)

    _wait_until_gone(*family)
