"""The catalogue of keys in keys.py against what really stands in the store."""

from __future__ import annotations

import re

from tests.integration.store.attempt import REFUND
from tests.integration.store.stage import Stage

from retinue.contract import Budget, ErrorClassification, SubagentState
from retinue.store import keys
from retinue.store.operations import passing
from retinue.store.operations.budgets import Reservation
from retinue.store.operations.launching import Rounds

_KINDS = {"string", "list", "hash", "set", "zset"}


def _rows(stage: Stage) -> dict[re.Pattern[str], str]:
    """Each pattern of the catalogue with its type."""
    rows = {}
    for line in (keys.__doc__ or "").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 4 or not line.startswith("| ") or cells[0] == "key":
            continue
        pattern = re.escape(cells[0])
        pattern = re.sub(r"^T\\ ", f"retinue:{stage.tenant}:{{p{stage.partition:02d}}}:", pattern)
        pattern = re.sub(r"^P\\ ", f"retinue:{{p{stage.partition:02d}}}:", pattern)
        rows[re.compile(re.sub(r"<\w+>", "[^:]+", pattern) + "$")] = re.split(r"\W", cells[1])[0]
    return rows


def _fill(stage: Stage) -> None:
    """Runs a tree through everything that writes a key."""
    root = stage.root(timeout_ms=60_000, correlation="c" * 40, grant_json="{}")
    _, (child, other) = stage.waiting(root, 2)
    stage.steer(child)
    stage.root(thread_id="t" + "0" * 31)
    attempt = stage.calling(other, "search")
    stage.run(passing.listen(stage.tenant, root.run_id))
    stage.run(attempt.progress())
    stage.run(attempt.tool(0))
    stage.end(stage.child(attempt, 1, slot=None, slot_tool=""))
    stage.child(attempt, 2, slot=None, background=True, document="d" * 64)
    _fill_budgets(stage)
    ended = stage.root()
    asking = stage.asking(ended)
    stage.run(asking.model(partial="p"))
    stage.run(asking.finish(SubagentState.FAILED, ErrorClassification.AGENT_ERROR))
    stage.cancel(child)
    stage.give_up(stage.root())
    stage.end(stage.root(tells="dsw"))
    stage.run(stage.calling(stage.root(), "handoff_conversation").hand_off())
    stage.run(stage.calling(stage.root(), "refund").ask(REFUND))
    sender = stage.calling(stage.root(), "send_message")
    message = stage.new_child(sender, thread_id="t" + "1" * 31)
    stage.launch(message, parent=sender.as_parent(1), rounds=Rounds(sender.run.run_id, 9))


def _fill_budgets(stage: Stage) -> None:
    """A run whose budget is spent, and one that waits for what another has reserved."""
    request = Reservation(10, 10, 10, 0)
    spent = stage.claim(stage.root(budget=Budget(tokens=1)))
    stage.run(spent.boundary(reservation=request))
    parent = stage.calling(stage.root(budget=Budget(tokens=150, tool_calls=9)), "run_agent", "run_agent")
    for index in range(2):
        child = stage.claim(stage.child(parent, index), process="p2")
        stage.run(child.boundary(reservation=request))


def test_every_key_of_a_tree_stands_in_the_catalogue_with_its_type_and_no_other_is_missing(
    stage: Stage,
) -> None:
    rows = _rows(stage)
    assert set(rows.values()) <= _KINDS
    _fill(stage)
    met = set()
    for name in [*stage.dump(), keys.queues(stage.partition)]:
        (row,) = [row for row in rows if row.match(name)]
        assert stage.server.type(name) == rows[row], name
        met.add(row)
    assert {row.pattern for row in rows if row not in met} == {
        row.pattern for row in rows if not re.search("p[0-9][0-9]", row.pattern)
    }, "what belongs to no partition belongs to processes, and was not written here"


def test_every_field_of_a_record_is_explained(stage: Stage) -> None:
    _fill(stage)
    _, _, explained = (keys.__doc__ or "").partition("Record fields:")
    names = set(re.findall(r"[a-z]+", explained))
    for name, stored in stage.dump().items():
        if re.search(r":run:[^:]+$", name):
            # Tools have fields of their own names; sums led by y are those led by x.
            plain = {re.sub(r"^y", "x", field) for field in stored.value if ":" not in field}
            assert plain <= names
