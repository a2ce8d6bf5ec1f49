"""What must hold in the store at any moment: indexes agree with records, events are well formed.

Every test of the store ends with this audit, whatever it was about.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import Any

from tests.integration.store.budget_audit import audit_budgets

from retinue.contract import EVENT_KEYS, PHASES_OF, TERMINAL_STATES, EventType, Phase, SubagentState, Usage
from retinue.store.record import Record

_RECORD = re.compile(r"retinue:[^:]+:\{p\d\d\}:run:([^:]+)$")
_QUEUED = (Phase.QUEUED, Phase.NO_WORKER)


@dataclass(frozen=True)
class Stored:
    """A key's value, and whether it will expire."""

    value: Any
    expires: bool


Dump = dict[str, Stored]


def dump(server: Any, tenant: str, partition: int) -> Dump:
    """All that stands in the store for a tenant; of shared indexes, the tenant's members."""
    own = list(server.scan_iter(f"retinue:{tenant}:*", count=10_000))
    shared = list(server.scan_iter(f"retinue:{{p{partition:02d}}}:*", count=10_000))
    names = sorted([*own, *shared])
    types = _pipelined(server, [("TYPE", name) for name in names])
    reads = {
        "string": ("GET",),
        "hash": ("HGETALL",),
        "list": ("LRANGE", 0, -1),
        "set": ("SMEMBERS",),
        "zset": ("ZRANGE", 0, -1, "WITHSCORES"),
    }
    commands = [(reads[kind][0], name, *reads[kind][1:]) for kind, name in zip(types, names, strict=True)]
    values = _pipelined(server, commands)
    lives = _pipelined(server, [("PTTL", name) for name in names])
    found: Dump = {}
    for name, kind, value, life in zip(names, types, values, lives, strict=True):
        if name in shared:
            value = _members(kind, value, tenant)
            if not value:
                continue
        found[name] = Stored(sorted(value) if kind == "set" else value, life > 0)
    return found


def audit(found: Dump, tenant: str) -> None:
    """Asserts the store's invariants over a whole tenant."""
    records = {match[1]: name for name in found if (match := _RECORD.match(name))}
    indexes = _Indexes(found)
    for run_id, name in records.items():
        _audit_record(found, indexes, f"{tenant}/{run_id}", name)
    for name, stored in found.items():
        if name.endswith((":ev", ":pg")):
            for raw in stored.value:
                _audit_event(raw)
        if ":tree:" in name and name.count(":") == 4:
            _audit_tree(found, name)
    _audit_threads(found, records)
    _audit_awaited(found, records)
    _audit_sums(found, records)
    audit_budgets(found, records)
    live_children = Counter(
        found[name].value["par"] for name in records.values() if "fi" not in found[name].value
    )
    for run_id, name in records.items():
        assert int(found[name].value["lc"]) == live_children[run_id], run_id


def unowned(found: Dump) -> list[str]:
    """Keys that would stay for ever though nothing is live any more."""
    return [
        name
        for name, stored in found.items()
        # The one index that is kept: who has ever launched in the partition.
        if not stored.expires and not name.endswith(":tenants")
    ]


class _Indexes:
    """Where each member stands: queues, owner sets, timers, live runs; and which paths are marked."""

    def __init__(self, found: Dump) -> None:
        self.queues: defaultdict[str, list[str]] = defaultdict(list)
        self.owners: defaultdict[str, list[str]] = defaultdict(list)
        self.live: set[tuple[str, str]] = set()
        self.asking: set[tuple[str, str]] = set()
        self.short: set[tuple[str, str]] = set()
        self.timers: set[str] = set()
        self.stopped: set[tuple[str, str]] = set()
        for name, stored in found.items():
            if "}:q:" in name:
                for member, _ in _pairs(stored.value):
                    self.queues[member].append(name.rpartition("}:q:")[2])
            elif "}:own:" in name:
                for member in stored.value:
                    self.owners[member].append(name.rpartition("}:own:")[2])
            elif name.endswith("}:due"):
                self.timers |= {member for member, _ in _pairs(stored.value)}
            elif ":tree:" in name and name.endswith(":m"):
                self.stopped |= {
                    (name.split(":")[4], path) for path, mark in stored.value.items() if mark in "ci"
                }
            elif ":tree:" in name and name.endswith(":ask"):
                self.asking |= {(name.split(":")[4], entry) for entry, _ in _pairs(stored.value)}
            elif ":tree:" in name and name.endswith(":bw"):
                self.short |= {(name.split(":")[4], entry) for entry, _ in _pairs(stored.value)}
            elif name.endswith(":live"):
                self.live |= {(name.split(":")[4], entry) for entry, _ in _pairs(stored.value)}


def _audit_record(found: Dump, indexes: _Indexes, member: str, name: str) -> None:
    record = found[name].value
    state, phase = SubagentState(record["st"]), Phase(record["ph"])
    terminal, waits = state in TERMINAL_STATES, phase.value.startswith("waiting")
    assert phase in PHASES_OF[state], (state, phase)
    assert indexes.queues[member] == ([record["q"]] if phase in _QUEUED else [])
    assert indexes.owners[member] == ([record["own"]] if record["own"] else [])
    assert bool(record["own"]) == bool(record["tok"])
    assert (name + ":e" in found) == waits, "open entries stand for a waiting run, and only for one"
    assert not (record["own"] and (waits or phase in _QUEUED))
    entry = f"{record['path']} {member.partition('/')[2]}"
    assert ((record["root"], entry) in indexes.live) == (not terminal)
    assert ("fi" in record) == found[name].expires == terminal
    asked = record.get("na", "0") != "0"
    counts_down = record["dl"] != "0" and "hw" not in record
    is_short = (record["root"], entry) in indexes.short
    to_do = asked or counts_down or is_short or (record["root"], record["path"]) in indexes.stopped
    # The timer of a deadline that stands still, or of a wait for budget, may be left where it was: it finds
    # nothing to do.
    if terminal or to_do or (record["dl"] == "0" and "bk" not in record):
        assert (member in indexes.timers) == (int(record["lc"]) > 0 if terminal else to_do)
    _audit_requests(found, name, asks=(record["root"], entry) in indexes.asking)
    if terminal:
        assert name + ":j" not in found
        assert name + ":c" not in found
        for part in (":req", ":res", ":part", ":s", ":pg"):
            assert name + part not in found or found[name + part].expires, part


def _audit_requests(found: Dump, name: str, *, asks: bool) -> None:
    """What a run asks of a human is counted on its record and stands in its tree's index."""
    record, stored = found[name].value, found.get(name + ":a")
    slots = list(stored.value) if stored else []
    open_slots = [slot for slot in slots if not slot.startswith("!")]
    assert not set(open_slots) & {slot.removeprefix("!") for slot in slots if slot.startswith("!")}
    assert len(open_slots) == int(record.get("na", "0"))
    assert stored is None or "na" in record
    assert asks == bool(open_slots)
    of_parent = [slot for slot in open_slots if '"audience":"parent"' in found[name + ":a"].value[slot]]
    assert len(of_parent) == int(record.get("nq", "0"))
    waits = found.get(f"{name.rpartition('run:')[0]}run:{record['par']}:bg")
    if waits is not None:
        is_told = waits.value.get(name.rpartition("run:")[2]) == "?"
        assert is_told == bool(of_parent), "its parent is told of its questions"
    if "fi" in record:
        assert not open_slots, "an ended run asks nothing any more"
        assert stored is None or stored.expires
    for slot in open_slots:
        json.loads(found[name + ":a"].value[slot])


def _audit_awaited(found: Dump, records: dict[str, str]) -> None:
    """A run counts those at or below it that ask a human, up to the next ended one above them."""
    awaited = Counter[str]()
    for run_id, name in records.items():
        record = found[name].value
        above = run_id if int(record.get("na", "0")) > int(record.get("nq", "0")) else None
        while above in records and "fi" not in found[records[above]].value:
            awaited[above] += 1
            above = found[records[above]].value["par"]
    for run_id, name in records.items():
        record = found[name].value
        assert int(record.get("hw", 0)) == awaited[run_id], run_id
        assert ("hs" in record) == ("hw" in record) == (awaited[run_id] > 0), run_id


def _audit_threads(found: Dump, records: dict[str, str]) -> None:
    """Each live run is the one writer of its thread, which then does not expire."""
    writers: dict[str, str] = {}
    for run_id, name in records.items():
        record, thread = found[name].value, f"{name.rpartition('run:')[0]}th:{found[name].value['th']}"
        if "fi" in record:
            continue
        assert writers.setdefault(thread, run_id) == run_id, "two runs write to one thread"
        assert thread not in found or not found[thread].expires
        if record["th"] != run_id:
            assert found[thread + ":by"].value == run_id
    for name in found:
        if name.endswith(":by"):
            assert name.removesuffix(":by") in writers, "nobody writes to the thread any more"


def _audit_sums(found: Dump, records: dict[str, str]) -> None:
    """What stands on a record of all below it is the sum of what stands on their records."""
    views = {run_id: Record(found[name].value) for run_id, name in records.items()}
    sums = dict.fromkeys(views, Usage(cost_usd=0.0))
    for view in views.values():
        parent = view.parent_id
        while parent in views:
            sums[parent] += view.usage
            parent = views[parent].parent_id
    members = Counter(view.root_id for view in views.values())
    for run_id, view in views.items():
        tree = f"{records[run_id].rpartition('run:')[0]}tree:{view.root_id}"
        if int(found[tree].value["n"]) == members[view.root_id]:
            assert _same(view.tree_usage, view.usage + sums[run_id]), run_id


def _same(one: Usage, other: Usage) -> bool:
    """Where a record has too many tools to name them all, it names others than another one does."""
    if "..." in {*one.tools, *other.tools}:
        one, other = _unnamed(one), _unnamed(other)
    return one == other


def _unnamed(used: Usage) -> Usage:
    seconds = round(sum(used.tool_seconds.values()), 3)
    return replace(used, tools={"all": sum(used.tools.values())}, tool_seconds={"all": seconds})


def _audit_tree(found: Dump, name: str) -> None:
    counted = int(found[name].value["live"])
    live = _pairs(found[name + ":live"].value) if name + ":live" in found else []
    assert counted == len(live)
    prefix, _, root_id = name.rpartition("tree:")
    trees = found.get(prefix + "trees")
    assert (root_id in (dict(_pairs(trees.value)) if trees else {})) == (counted > 0), root_id
    for part in ("", ":ev", ":m", ":g", ":sp", ":b"):
        if name + part in found:
            assert found[name + part].expires == (counted == 0), part


def _audit_event(raw: str) -> None:
    entry = json.loads(raw)
    kind = EventType(entry.pop("e"))
    assert entry.pop("r").startswith("sa-p")
    assert isinstance(entry.pop("t"), int)
    assert set(entry) == EVENT_KEYS[kind], kind


def _members(kind: str, value: Any, tenant: str) -> Any:
    if kind == "zset":
        return [pair for pair in _pairs(value) if pair[0].partition("/")[0] == tenant]
    return [item for item in value if item.partition("/")[0] == tenant]


def _pairs(value: Any) -> list[tuple[str, float]]:
    return [(member, float(score)) for member, score in value]


def _pipelined(server: Any, commands: list[tuple[Any, ...]]) -> list[Any]:
    with server.pipeline(transaction=False) as pipeline:
        for command in commands:
            pipeline.execute_command(*command)
        return pipeline.execute()
