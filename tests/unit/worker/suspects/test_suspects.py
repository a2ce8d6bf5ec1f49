"""The processes of suspects: which run gets which, how long they are kept, and what ends them."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from retinue.contract import new_run_id
from retinue.store.call import RunKey
from retinue.worker.pool.reports import Succeeded, TaskReport
from retinue.worker.suspects.suspects import MOST_IDLE, Suspects

WITHIN_S = 30.0
PROCESS = """
import json, os, sys, threading, time

def say(*words):
    os.write(1, json.dumps(words).encode() + b"\\n")

def beat():
    while True:
        say("alive")
        time.sleep(0.05)

def note(word):
    with open("starts", "a") as starts:
        starts.write(word + "\\n")

note("begun")
time.sleep(float(os.environ.get("START_S", "0")))
note("ready")
threading.Thread(target=beat, daemon=True).start()
for line in sys.stdin:
    tenant, run_id = json.loads(line)
    if tenant == "dies":
        os._exit(3)
    if tenant == "stays":
        for _ in sys.stdin:
            pass
        break
    if tenant.startswith("together"):
        open(os.path.join("together", run_id), "w").close()
        while len(os.listdir("together")) < int(tenant.removeprefix("together")):
            time.sleep(0.01)
    say("done", "succeeded", str(os.getpid()), tenant != "unfit")
say("over")
"""
"""A process as `retinue.worker.suspects.solo` looks from outside; a run's tenant tells what becomes of it."""


class Slots:
    def lend(self) -> None: ...
    def take_back(self) -> None: ...


@pytest.fixture
async def suspects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Suspects]:
    (tmp_path / "stand_in.py").write_text(PROCESS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("retinue.worker.suspects.solo_process.MODULE", "stand_in")
    suspects = Suspects(Slots(), hang_s=2.0, drain_s=0.0, idle_s=3.0)
    yield suspects
    await suspects.end(hurry=True)


@pytest.fixture
def together(suspects: Suspects, tmp_path: Path) -> Callable[[int], Awaitable[list[str]]]:
    """So many runs, none of which ends before all have begun; gives the processes that had them."""

    async def work(runs: int) -> list[str]:
        begun = tmp_path / "together"
        shutil.rmtree(begun, ignore_errors=True)
        begun.mkdir()
        return await asyncio.gather(*(run(suspects, f"together{runs}") for _ in range(runs)))

    return work


async def run(suspects: Suspects, tenant: str = "fits") -> str:
    async with asyncio.timeout(WITHIN_S):
        report: TaskReport = await suspects.run(RunKey(tenant, new_run_id(7)))
    assert isinstance(report, Succeeded)
    return report.line


def starts(directory: Path) -> list[str]:
    """What the processes noted of their starts."""
    return (directory / "starts").read_text().split()


async def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not true():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


def is_gone(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")
    except (FileNotFoundError, ProcessLookupError):
        return True


async def test_the_next_run_gets_the_process_that_the_last_one_has_left(suspects: Suspects) -> None:
    assert await run(suspects) == await run(suspects)


async def test_a_process_without_a_run_is_kept_for_a_while_only(suspects: Suspects) -> None:
    pid = await run(suspects)
    assert not is_gone(pid)
    await until(lambda: is_gone(pid))


async def test_only_some_are_kept(
    suspects: Suspects, together: Callable[[int], Awaitable[list[str]]]
) -> None:
    pids = await together(MOST_IDLE + 1)
    assert len(set(pids)) == MOST_IDLE + 1
    await until(lambda: any(map(is_gone, pids)))
    again = await together(MOST_IDLE + 1)
    assert len(set(pids) & set(again)) == MOST_IDLE


async def test_one_process_starts_at_a_time_and_short_runs_share_what_is_there(
    suspects: Suspects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As after a worker's death: all that it held comes at once, on a machine where a start takes seconds.
    monkeypatch.setenv("START_S", "0.5")
    pids = await asyncio.gather(*(run(suspects) for _ in range(8)))
    await until(lambda: len(starts(tmp_path)) % 2 == 0)
    assert starts(tmp_path) == ["begun", "ready"] * (len(starts(tmp_path)) // 2)
    assert len(set(pids)) == 1
    assert len(starts(tmp_path)) <= 4


async def test_a_run_that_no_longer_waits_for_a_process_leaves_it_to_the_next(
    suspects: Suspects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("START_S", "0.5")
    gone, stays = (asyncio.create_task(run(suspects)) for _ in range(2))
    await until(lambda: suspects.waiting == 2)
    gone.cancel()
    assert (await stays).isdigit()
    assert await run(suspects) == await stays


async def test_runs_that_wait_for_a_process_are_dropped_when_the_worker_stops(
    suspects: Suspects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("START_S", "0.5")
    waiting = [asyncio.create_task(run(suspects)) for _ in range(3)]
    await until(lambda: suspects.waiting == 3)
    await suspects.end(hurry=True)
    assert [await one for one in waiting] == ["dropped: the worker stops"] * 3


async def test_a_process_that_cannot_be_started_is_told_as_lost(
    suspects: Suspects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retinue.worker.suspects.solo_process.MODULE", "no_such_module")
    assert set(await asyncio.gather(run(suspects), run(suspects))) == {"lost: its process ended with 1"}
    monkeypatch.setattr("sys.executable", "/no/such/python")
    assert (await run(suspects)).startswith("lost: its process cannot be started")


async def test_a_process_in_which_something_is_left_of_its_run_gets_no_other(suspects: Suspects) -> None:
    pid = await run(suspects, "unfit")
    assert await run(suspects) != pid
    await until(lambda: is_gone(pid))


async def test_a_process_that_died_or_hangs_without_a_run_gets_none(suspects: Suspects) -> None:
    for number in (signal.SIGKILL, signal.SIGSTOP):
        pid = await run(suspects)
        os.kill(int(pid), number)
        await until(lambda pid=pid: is_gone(pid))
        assert await run(suspects) != pid


async def test_a_process_that_dies_with_its_run_is_told_as_lost(suspects: Suspects) -> None:
    assert await run(suspects, "dies") == "lost: its process ended with 3"


async def test_all_processes_end_with_the_worker_whose_runs_are_handed_back(
    suspects: Suspects, together: Callable[[int], Awaitable[list[str]]]
) -> None:
    idle = await run(suspects)
    kept = await together(2)
    at_work = asyncio.create_task(run(suspects, "stays"))
    await asyncio.sleep(0)
    await suspects.end(hurry=False)
    assert await at_work == "handed back: its process stops"
    assert all(map(is_gone, {idle, *kept}))
    assert await run(suspects) == "dropped: the worker stops"
