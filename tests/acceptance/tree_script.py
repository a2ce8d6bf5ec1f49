"""What the model says in a tree of five levels with three children each, and what must come of it."""

from __future__ import annotations

from collections import Counter

from tests.acceptance.run_rig import RunRig, of_kind

from retinue.client import SubagentLifecycle
from retinue.contract import EventType, SubagentHandle
from retinue.testing.scripted_server import ScriptedServer

DEEPEST = 4
CHILDREN = 3
RUNS = 121
LEAVES = 81
MODEL_CALLS = 2 * RUNS


def script_tree(model: ScriptedServer) -> None:
    """Every run but the leaves delegates to three; a leaf appends a line; all pass on what they heard."""
    for level in range(DEEPEST):
        script = model.script(f"level{level}")
        for child in range(CHILDREN):
            script.call("run_agent", {"name": f"level{level + 1}", "task": f"${{user}}.{child}"})
        script.then("(${results})")
    model.script("level4").call("append", {"line": "${user}"}).then("${results}")


def answer(task: str, level: int = 0) -> str:
    """What a run of the tree answers to a task when nothing went wrong."""
    if level == DEEPEST:
        return f"wrote {task}"
    return "(" + "; ".join(answer(f"{task}.{child}", level + 1) for child in range(CHILDREN)) + ")"


def check_nothing_ran_twice(rig: RunRig, lifecycle: SubagentLifecycle, handle: SubagentHandle) -> None:
    """No tool ran twice, and no model call was made again once its response was recorded."""
    ran = Counter(line.split()[0] for line in rig.ledger())
    assert [key for key, times in ran.items() if times > 1] == []

    events = list(lifecycle.events(handle))
    recorded = {
        (rig.goal_of(event.run_id), event.data["iteration"]): event.at.timestamp()
        for event in of_kind(events, EventType.MODEL_FINISHED)
    }
    assert len(recorded) == len(of_kind(events, EventType.MODEL_FINISHED)) == MODEL_CALLS
    root = rig.goal_of(handle.subagent_id)
    for asked in rig.model.requests():
        assert asked.request is not None
        task = asked.request.messages[0].text
        if task.split(".")[0] == root:
            # Events bear the millisecond in which they happened.
            assert asked.started_at < recorded[task, (asked.turn or 0) + 1] + 0.001, (task, asked.turn)
