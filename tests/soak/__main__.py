"""The soak: random faults over a load of trees, and then a look at everything: `make soak MINUTES=n SEED=s`.

The last line is `runs=... kills=... restarts=... violations=...`; it ends with 1 if there is a violation.
"""

from __future__ import annotations

import argparse
import secrets
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.soak import verdict
from tests.soak.asked import AskedRecord
from tests.soak.load import SESSIONS, Load
from tests.soak.plan import Fault, plan_faults
from tests.soak.scripts import PROBE
from tests.soak.stage import CONCURRENCY, SLOTS, SoakStage

from retinue.contract import RetinueError

_SHOWN = 50
_PROBE_S = 30.0
_TEND_EVERY_S = 0.5
_AT_WORK = 2
"""How many workers take work when a fault strikes. A machine that is slow to start them is struck later."""


def main() -> int:
    """Runs one soak by the command line; the exit code."""
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", default="", help="brings the plan of faults back; empty = a random one")
    options = parser.parse_args()
    seed = int(options.seed) if options.seed else secrets.randbelow(2**31)
    print(f"soak minutes={options.minutes:g} seed={seed}", flush=True)
    directory = Path(tempfile.mkdtemp(prefix="retinue-soak-"))
    stage = SoakStage(directory)
    try:
        found, runs = soak(stage, seed, options.minutes * 60)
    finally:
        stage.close()
    for line in found[:_SHOWN]:
        print(f"violation: {line}")
    if found:
        print(f"logs of the workers: {directory}")
    else:
        shutil.rmtree(directory)
    print(f"runs={runs} kills={stage.kills} restarts={stage.restarts} violations={len(found)}")
    return 1 if found else 0


def soak(stage: SoakStage, seed: int, seconds: float) -> tuple[list[str], int]:
    """Lets the faults of a seed strike, and judges: the violations, and how many runs there were."""
    load, record = Load(stage, seed), AskedRecord(stage.model)
    record.start()
    load.start()
    _strike(stage, plan_faults(seed, seconds=seconds, slots=SLOTS), seconds)
    stage.settle()
    load.finish()
    found = verdict.wait_until_still(stage)
    record.finish()

    trees = verdict.read_trees(stage, load.deeds)
    found += stage.complaints + load.complaints
    found += verdict.check_logs(trees)
    found += verdict.check_promises(trees)
    found += verdict.check_effects(trees, stage.ledger())
    found += verdict.check_model_calls(stage, trees, record.asked)
    found += verdict.check_keys(stage, [f"soak-{number}" for number in range(SESSIONS)])
    found += check_slots(stage, load)
    found += verdict.check_workers(stage)
    states = Counter(f"{tree.deed.kind} {tree.deed.ended}" for tree in trees)
    print("trees:", ", ".join(f"{name}: {count}" for name, count in sorted(states.items())))
    return found, sum(len(tree.runs) for tree in trees)


def check_slots(stage: SoakStage, load: Load) -> list[str]:
    """Whether every slot of every worker can still be used: as many runs as there are slots, all at once."""
    slots = SLOTS * CONCURRENCY
    lifecycle = load.lifecycles[0]
    handles = lifecycle.launch_many([{"agent": "probe", "goal": "probe"}] * slots)
    found: list[str] = []
    try:
        stage.model.wait_for(lambda model: model.in_flight("probe") == slots, timeout_s=_PROBE_S)
    except TimeoutError:
        found.append(f"of {slots} slots only {stage.model.in_flight('probe')} could be used")
    stage.model.release(PROBE)
    ended = lifecycle.wait_all(handles, timeout_seconds=_PROBE_S)
    return found + ["a probe did not end" for one in ended if not one.completed]


def _strike(stage: SoakStage, faults: list[Fault], seconds: float) -> None:
    started = time.monotonic()
    for fault in faults:
        _tend(stage, until=started + fault.at_s)
        due = time.monotonic()
        stage.await_workers(_AT_WORK)
        started += time.monotonic() - due
        print(f"{fault.at_s:7.1f} s  {fault.kind} slot={fault.slot} lasts_s={fault.lasts_s:.1f}", flush=True)
        try:
            stage.inflict(fault)
        except RetinueError as failed:
            stage.complaints.append(f"{fault.kind} failed: {failed}")
    _tend(stage, until=started + seconds)


def _tend(stage: SoakStage, *, until: float) -> None:
    """Looks after the workers until a time of the monotonic clock."""
    while True:
        stage.tend()
        left_s = until - time.monotonic()
        if left_s <= 0:
            return
        time.sleep(min(left_s, _TEND_EVERY_S))


if __name__ == "__main__":
    sys.exit(main())
