"""What must hold in the store at any moment: indexes agree with records, events are well formed.

Every test of the store ends with this audit, whatever it was about.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from retinue.contract import EVENT_KEYS, PHASES_OF, TERMINAL_STATES, EventType, Phase, SubagentState

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
    records = {match[1]: stored for name, stored in found.items() if (match := _RECORD.match(name))}
    for run_id, stored in records.items():
        _audit_record(found, tenant, run_id, stored)
    for name, stored in found.items():
        if name.endswith((":ev", ":pg")):
            for raw in stored.value:
                _audit_event(raw)
        if ":tree:" in name and name.count(":") == 4:
            _audit_tree(found, name, records)


def unowned(found: Dump) -> list[str]:
    """Keys that would stay for ever though nothing is live any more."""
    return [
        name
        for name, stored in found.items()
        # The one index that is kept: who has ever launched in the partition.
        if not stored.expires and not name.endswith(":tenants")
    ]


def _audit_record(found: Dump, tenant: str, run_id: str, stored: Stored) -> None:
    record, member = stored.value, f"{tenant}/{run_id}"
    state, phase = SubagentState(record["st"]), Phase(record["ph"])
    terminal = state in TERMINAL_STATES
    assert phase in PHASES_OF[state], (state, phase)
    queues = [name for name, other in found.items() if "}:q:" in name and member in dict(_pairs(other.value))]
    owners = [name for name, other in found.items() if "}:own:" in name and member in other.value]
    assert [name.rpartition(":q:")[2] for name in queues] == ([record["q"]] if phase in _QUEUED else [])
    assert [name.rpartition(":own:")[2] for name in owners] == ([record["own"]] if record["own"] else [])
    assert bool(record["own"]) == bool(record["tok"])
    name = next(key for key in found if key.endswith(":run:" + run_id))
    waits = phase.value.startswith("waiting")
    assert (name + ":e" in found) == waits, "open entries stand for a waiting run, and only for one"
    if waits or phase in _QUEUED:
        assert not record["own"]
    live = [
        entry
        for other, held in found.items()
        if other.endswith(f":tree:{record['root']}:live")
        for entry, _ in _pairs(held.value)
    ]
    assert (f"{record['path']} {run_id}" in live) == (not terminal)
    assert int(record["lc"]) >= 0
    if terminal:
        assert "fi" in record
        assert name + ":j" not in found
        for part in ("", ":req", ":res", ":part", ":s", ":pg"):
            assert name + part not in found or found[name + part].expires, part
    else:
        assert not stored.expires
        assert "fi" not in record


def _audit_tree(found: Dump, name: str, records: dict[str, Stored]) -> None:
    counted = int(found[name].value["live"])
    live = _pairs(found[name + ":live"].value) if name + ":live" in found else []
    assert counted == len(live)
    for part in ("", ":ev", ":m", ":g", ":sp"):
        if name + part in found:
            assert found[name + part].expires == (counted == 0), part
    for run_id, stored in records.items():
        if stored.value["root"] == name.rpartition(":")[2]:
            below = [r for r in records.values() if r.value["par"] == run_id and "fi" not in r.value]
            assert int(stored.value["lc"]) == len(below), run_id


def _audit_event(raw: str) -> None:
    entry = json.loads(raw)
    kind = EventType(entry.pop("e"))
    assert entry.pop("r").startswith("sa-p")
    assert isinstance(entry.pop("t"), int)
    assert set(entry) == EVENT_KEYS[kind], kind


def _members(kind: str, value: Any, tenant: str) -> Any:
    mine = [item for item in (_pairs(value) if kind == "zset" else value)]
    if kind == "zset":
        return [pair for pair in mine if pair[0] == tenant or pair[0].startswith(tenant + "/")]
    return [item for item in mine if item.startswith(tenant + "/")]


def _pairs(value: Any) -> list[tuple[str, float]]:
    return [(member, float(score)) for member, score in value]


def _pipelined(server: Any, commands: list[tuple[Any, ...]]) -> list[Any]:
    with server.pipeline(transaction=False) as pipeline:
        for command in commands:
            pipeline.execute_command(*command)
        return pipeline.execute()
