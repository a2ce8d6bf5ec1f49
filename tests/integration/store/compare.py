"""What stands in the store against what the model checker's model says, after each step."""

from __future__ import annotations

from collections.abc import Sequence

from tests.integration.store.audit import Dump, audit
from tests.integration.store.reference import Place, Run
from tests.integration.store.stage import Stage
from tests.soak.log_rules import broken_rules

from retinue.contract import Event, EventType


def check_store(stage: Stage, roots: Sequence[Run]) -> Dump:
    """Asserts that records, indexes, counts and logs are as the model has them; gives what it saw."""
    found = stage.dump()
    audit(found, stage.tenant)
    for root in roots:
        runs = list(root.subtree())
        for run in runs:
            _check_run(found, stage, run)
        _check_log(found, stage, root, runs)
    return found


def _check_run(found: Dump, stage: Stage, run: Run) -> None:
    name = run.key.record
    assert (name in found) == (not run.expired)
    if run.expired:
        return
    record = found[name].value
    assert (record["st"], record["path"], record["th"]) == (run.state, run.path, run.thread)
    assert record["own"] == (stage.process(run.process) if run.process else "")
    assert record["tok"] == (run.fence.token if run.fence else "")
    counts = ("ep", "it", "im", "ls", "lc", "ns", "nd")
    assert [int(record[field]) for field in counts] == [
        run.epoch, run.iteration, run.recorded, run.losses, run.live_children, len(run.steers), run.seen,
    ]  # fmt: skip
    assert record["ph"].startswith("waiting") == (run.place is Place.WAITING)
    assert (record["ph"] == "queued") == (run.place is Place.QUEUED)
    assert _fields(found, f"{name}:j") == run.journal
    assert _fields(found, f"{name}:e") == run.waits
    steers = found[f"{name}:s"].value if run.steers else {}
    assert [steers["#" + steers[f"i{n}"]] for n in range(1, len(run.steers) + 1)] == run.steers
    asked = {slot for slot in _fields(found, f"{name}:a") if not slot.startswith("!")}
    assert asked == {slot for slot, letter in run.requests.items() if letter == "o"}


def _check_log(found: Dump, stage: Stage, root: Run, runs: Sequence[Run]) -> None:
    raw = found[stage.part(root.key, "tree:{}:ev")].value
    events = [Event.from_json(n, entry) for n, entry in enumerate(raw, start=1)]
    assert not broken_rules(events, all_ended=all(run.ended for run in runs))
    ends = {event.run_id: event.data["state"] for event in events if event.type is EventType.RUN_FINISHED}
    assert ends == {run.key.run_id: run.state for run in runs if run.ended}


def _fields(found: Dump, name: str) -> set[str]:
    return set(found[name].value) if name in found else set()
