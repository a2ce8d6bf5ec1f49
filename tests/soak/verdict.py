"""What must hold after a soak: logs, tool effects, what clients were told, keys, leases and slots."""

from __future__ import annotations

import json
import re
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tests.integration.store.audit import Dump, audit, dump, unowned
from tests.soak.asked import Asked
from tests.soak.load import Deed
from tests.soak.log_rules import broken_rules
from tests.soak.stage import SoakStage

from retinue.contract import TERMINAL_STATES, Event, EventType, SubagentState, partition_of
from retinue.store import keys
from retinue.store.operations.reading import read_events

_SETTLES_WITHIN_S = 30.0
_CLOCK_S = 0.05
"""How much later than the event that it came before an arrival may have been noted down."""

_BROKER_KEYS = re.compile(r"_kombu\.binding")


@dataclass(frozen=True)
class Tree:
    """One tree: what a client did, and what stands in the store."""

    deed: Deed
    events: Sequence[Event]

    @property
    def runs(self) -> list[str]:
        """Its runs' ids, the root's first."""
        return [event.run_id for event in self.events if event.type is EventType.RUN_CREATED]


def read_trees(stage: SoakStage, deeds: Sequence[Deed]) -> list[Tree]:
    """All trees with their whole logs."""
    client, trees = stage.client(), []
    for deed in deeds:
        call = read_events("_", deed.handle.subagent_id, limit=100_000)
        raw = client.execute_command(*call.command)
        trees.append(Tree(deed, call.parse(raw)))
    return trees


def wait_until_still(stage: SoakStage) -> list[str]:
    """Waits until no run is live and nothing is due; what is still there."""
    client = stage.client()

    def restless() -> list[str]:
        names = [str(name) for name in client.scan_iter("retinue:*", count=10_000)]
        return [name for name in names if re.search(r":live$|:due$|}:q:|}:own:|:ask$", name)]

    found = _until_none(restless)
    return [f"{name} is still there" for name in found]


def check_logs(trees: Sequence[Tree]) -> list[str]:
    """The rules of event logs, and that each tree was seen to end."""
    found = [
        f"{tree.deed.goal}: {what}" for tree in trees for what in broken_rules(tree.events, all_ended=True)
    ]
    for tree in trees:
        if not tree.events:
            found.append(f"{tree.deed.goal}: was launched, and is not there")
        if tree.deed.ended not in TERMINAL_STATES:
            found.append(f"{tree.deed.goal} ({tree.deed.kind}): no client saw it end: {tree.deed.stuck}")
    return found


def check_promises(trees: Sequence[Tree]) -> list[str]:
    """What clients were told holds: the end that they saw, steers, cancels, decisions."""
    found: list[str] = []
    for tree in trees:
        deed, root = tree.deed, tree.deed.handle.subagent_id
        own = [event for event in tree.events if event.run_id == root]
        kinds = Counter(event.type for event in own)
        ends = [event.data for event in own if event.type is EventType.RUN_FINISHED]
        if deed.ended is not None and [end["state"] for end in ends] != [deed.ended.value]:
            found.append(f"{deed.goal}: seen to end as {deed.ended}, logged as {ends}")
        if deed.ended not in {SubagentState.SUCCEEDED, SubagentState.CANCELLED if deed.cancelled else None}:
            found.append(f"{deed.goal} ({deed.kind}): ended as {ends}")
        if deed.cancelled and not kinds[EventType.CANCEL_REQUESTED]:
            found.append(f"{deed.goal}: an accepted cancel is not logged")
        queued = {event.data["steer"] for event in own if event.type is EventType.STEER_QUEUED}
        found += [f"{deed.goal}: accepted steer {name} is not logged" for name in set(deed.steers) - queued]
        decisions = {
            f"{event.run_id}/{event.data['iteration']}:{event.data['index']}": event.data["decision"]
            for event in tree.events
            if event.type is EventType.APPROVAL_DECIDED
        }
        for request, approved in deed.decided.items():
            if decisions.get(request) != ("approved" if approved else "denied"):
                found.append(f"{deed.goal}: decision on {request} is logged as {decisions.get(request)}")
    return found


def check_effects(trees: Sequence[Tree], ledger: Sequence[str]) -> list[str]:
    """No call ran twice that must not, none once its result was recorded, none that a human denied."""
    ran: defaultdict[str, list[float]] = defaultdict(list)
    repeats, tools = set[str](), dict[str, str]()
    for line in ledger:
        key, at, tool = line.split()
        ran[key].append(float(at))
        tools[key] = tool
        if tool in ("measure", "ask_and_wait"):
            repeats.add(key)
    found = [
        f"{key} ({tools[key]}) ran {len(at)} times"
        for key, at in ran.items()
        if len(at) > 1 and key not in repeats
    ]
    for tree in trees:
        approved = {request.replace("/", ":") for request, yes in tree.deed.decided.items() if yes}
        for event in tree.events:
            if event.type is not EventType.TOOL_FINISHED:
                continue
            key = f"{event.run_id}:{event.data['iteration']}:{event.data['index']}"
            late = [at for at in ran[key] if at > event.at.timestamp() + _CLOCK_S]
            found += [f"{key} ({tools[key]}) ran again after its result was recorded"] if late else []
            # Of a result that was made up for a lost call, `ok` is false.
            if event.data["ok"] and event.data["tool"] in ("note", "measure") and not ran[key]:
                found.append(f"{key} ({event.data['tool']}) has a result and never ran")
            if event.data["tool"] == "refund" and ran[key] and key not in approved:
                found.append(f"{key} (refund) ran without an approval")
    return found


def check_model_calls(stage: SoakStage, trees: Sequence[Tree], asked: Sequence[Asked]) -> list[str]:
    """No model was asked again for a response that was recorded, and each history was in order."""
    client, recorded = stage.client(), dict[tuple[str, int], float]()
    goals: dict[str, str] = {}
    for tree in trees:
        stored = client.mget([keys.record("_", run_id) + ":req" for run_id in tree.runs])
        for run_id, raw in zip(tree.runs, stored, strict=True):
            goals[run_id] = json.loads(raw)["request"]["goal"] if raw else run_id
        for event in tree.events:
            if event.type is EventType.MODEL_FINISHED:
                iteration = event.data["iteration"]
                assert isinstance(iteration, int)
                recorded[goals[event.run_id], iteration] = event.at.timestamp()
    found = [f"{one.goal}: the model could not answer: {one.problem}" for one in asked if one.problem]
    for one in asked:
        known_at = recorded.get((one.goal, one.iteration))
        if known_at is not None and one.at > known_at + _CLOCK_S:
            found.append(
                f"{one.goal}: iteration {one.iteration} was asked {one.at - known_at:.3f} s after its record"
            )
    return found


def check_keys(stage: SoakStage, sessions: Sequence[str]) -> list[str]:
    """Every key is of the catalogue, in agreement with the records, and will expire."""
    client, whole = stage.client(), Dump()
    for partition in {partition_of("_", session) for session in sessions}:
        whole |= dump(client, "_", partition)
    found = [f"{name} would stay for ever" for name in unowned(whole)]
    known = _catalogue()
    found += [
        f"{name} is a key of nobody's"
        for name in map(str, client.scan_iter(count=10_000))
        if not any(pattern.match(name) for pattern in known)
    ]
    try:
        audit(whole, "_")
    except AssertionError as broken:
        place = traceback.extract_tb(broken.__traceback__)[-1]
        found.append(f"audit: {place.name}: {place.line} {broken}")
    return found


def check_workers(stage: SoakStage) -> list[str]:
    """Those who live hold a lease each, and nobody else does; no wake-up is left."""
    client = stage.client()

    def wrong() -> list[str]:
        leases = {str(name).rpartition(":")[2] for name in client.scan_iter("retinue:lease:*", count=10_000)}
        known = {str(name) for name in client.hkeys(keys.WORKERS)}
        found = (
            []
            if len(leases) == len(stage.workers)
            else [f"{len(leases)} leases of {len(stage.workers)} workers"]
        )
        found += [f"{process} is advertised and gone" for process in known - leases]
        lists = [str(name) for name in client.scan_iter("retinue*", count=10_000, _type="list")]
        return found + [f"{name} holds wake-ups" for name in lists if "}" not in name]

    return _until_none(wrong)


def _catalogue() -> list[re.Pattern[str]]:
    return [_BROKER_KEYS, *_rows()]


def _rows() -> Iterator[re.Pattern[str]]:
    for line in (keys.__doc__ or "").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and line.startswith("| ") and cells[0] != "key":
            pattern = re.escape(cells[0])
            pattern = re.sub(r"^T\\ ", r"retinue:_:{p\\d\\d}:", pattern)
            pattern = re.sub(r"^P\\ ", r"retinue:{p\\d\\d}:", pattern)
            yield re.compile(re.sub(r"<\w+>", ".+", pattern) + "$")


def _until_none(look: Callable[[], list[str]]) -> list[str]:
    deadline = time.monotonic() + _SETTLES_WITHIN_S
    while found := look():
        if time.monotonic() > deadline:
            return found
        time.sleep(0.1)
    return []
