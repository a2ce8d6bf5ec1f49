"""What must hold of budgets at any moment: held is what runs have reserved, and it is known who waits."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

_RESERVED = {"i": "rin", "o": "rout", "u": "rus"}
_USED = {"i": "tin", "o": "tout", "u": "usd"}


def audit_budgets(found: Mapping[str, Any], records: Mapping[str, str]) -> None:
    """Asserts that accounts and records agree.

    Args:
        found: A dump of the store.
        records: The record's key of each run.
    """
    of_tree: defaultdict[str, list[dict[str, str]]] = defaultdict(list)
    waiting: defaultdict[str, set[str]] = defaultdict(set)
    for run_id, name in records.items():
        record = found[name].value
        tree = f"{name.rpartition('run:')[0]}tree:{record['root']}"
        of_tree[tree].append(record)
        if record["ph"] == "paused_budget":
            waiting[tree].add(f"{record['path']} {run_id}")
        _audit_run(record)
    trees = [name for name in found if ":tree:" in name and name.count(":") == 4]
    for tree in trees:
        _audit_waiting(found, tree, waiting[tree])
        stored = found.get(tree + ":b")
        _audit_accounts(stored.value if stored else {}, of_tree[tree])


def _audit_run(record: dict[str, str]) -> None:
    if "rin" in record:
        assert record["own"], "a reservation outlived the attempt that made it"
        assert record["ph"] == "model_call"
    assert ("nin" in record) == (record["ph"] == "paused_budget")
    assert {"rin", "rout", "rus"} & set(record) in (set(), {"rin", "rout", "rus"})


def _audit_waiting(found: Mapping[str, Any], tree: str, paused: set[str]) -> None:
    names = [tree + ":bw", tree + ":bs"]
    entries = [entry for name in names if name in found for entry, _ in found[name].value]
    assert sorted(entries) == sorted(paused)


def _audit_accounts(stored: Mapping[str, str], runs: list[dict[str, str]]) -> None:
    accounts: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for name, value in stored.items():
        path, _, field = name.rpartition("/")
        accounts[path + "/"][field] = value
    for run in runs:
        depths = {path.count("/") - 1 for path in accounts if run["path"].startswith(path)}
        assert run.get("bk", "") == " ".join(map(str, sorted(depths)))
    for path, account in accounts.items():
        below = [run for run in runs if run["path"].startswith(path)]
        for kind, field in _RESERVED.items():
            held = sum(int(run.get(field, 0)) for run in below)
            assert int(account.get("h" + kind, 0)) == held, f"{path} holds what nobody has reserved"
        used = Counter({kind: sum(int(run.get(field, 0)) for run in below) for kind, field in _USED.items()})
        for kind, amount in used.items():
            # What a response took is charged as it was estimated where nobody says.
            assert int(account.get("u" + kind, 0)) >= amount
