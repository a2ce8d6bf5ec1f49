"""`retinue demo`: the whole of Retinue on this machine, from nothing to nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from retinue.broker.routes import queue_for
from retinue.cli.demo.example import Example
from retinue.cli.demo.stage import Stage, set_stage
from retinue.cli.exits import ExitCode, exit_of_state
from retinue.cli.output import note, say
from retinue.cli.views.results import print_result
from retinue.cli.views.tree_view import TreeView, total_usage, tree_lines, usage_text
from retinue.cli.views.watching import Watch, display_on
from retinue.client import SubagentLifecycle, SubagentNode, SubagentState
from retinue.client.clock import WaitClock
from retinue.client.dispatch.connections import connections_for
from retinue.worker.extra import require_extra

GOAL: Final = "Review the checkout: its size, its languages, and the modules that carry its weight."
RUNS_MIN: Final = 3
PROCESSES_MIN: Final = 2
_SCRIPTED_LIMIT_S: Final = 120.0
_REAL_LIMIT_S: Final = 900.0


def run_demo(example: Example, checkout: Path | None = None) -> ExitCode:
    """Lets the team review a checkout, shows the tree while it works, and leaves no process behind.

    Args:
        example: the team.
        checkout: what it reviews; None = the project that the example belongs to.

    Returns:
        OK only if every run succeeded, and they ran on both worker processes.

    Raises:
        RetinueError: something could not be started; the text says what.
    """
    require_extra("the demo")
    with set_stage(example, (checkout or example.checkout).resolve()) as stage:
        return _perform(stage)


def _perform(stage: Stage) -> ExitCode:
    begun = time.monotonic()
    limit_s = _SCRIPTED_LIMIT_S if stage.is_scripted else _REAL_LIMIT_S
    with SubagentLifecycle("demo", settings=stage.settings) as lifecycle:
        handle = lifecycle.launch(agent=stage.agent, goal=GOAL, timeout_seconds=limit_s)
        say(f"launched {handle.subagent_id} ({stage.agent})\n")
        place = _Place(stage, _process_ids(stage))
        watch = Watch(lifecycle, handle, display_on(sys.stdout, lambda node: place.of(watch.view, node)))
        watch.until_ended(WaitClock(limit_s, field="limit_s"))
        elapsed_s = time.monotonic() - begun
        nodes, result = lifecycle.tree(handle), lifecycle.result(handle)
    say("\ntree")
    for line in tree_lines(nodes, lambda node: place.of(watch.view, node)):
        say(f"  {line}")
    say("\nresult")
    print_result(result, as_json=False)
    processes = {process for node in nodes for process in watch.view.processes(node.run_id)}
    say(f"\nusage    {usage_text(total_usage(nodes))}")
    say(f"elapsed  {elapsed_s:.1f} s, {len(nodes)} runs on {len(processes)} worker processes")
    return _verdict(nodes, len(processes), exit_of_state(result.terminal_state))


def _verdict(nodes: tuple[SubagentNode, ...], processes: int, outcome: ExitCode) -> ExitCode:
    failed = [node for node in nodes if node.state is not SubagentState.SUCCEEDED]
    for node in failed:
        note(f"{node.agent} ({node.run_id}) is {node.state}")
    if outcome is not ExitCode.OK:
        return outcome
    if failed:
        return ExitCode.FAILED
    if len(nodes) < RUNS_MIN or processes < PROCESSES_MIN:
        # A real model may do everything by itself.
        note(f"expected {RUNS_MIN} runs on {PROCESSES_MIN} worker processes")
        return ExitCode.PROBLEM
    return ExitCode.OK


@dataclass(frozen=True, slots=True)
class _Place:
    """Says where a run waits and works."""

    stage: Stage
    process_ids: Mapping[str, int]

    def of(self, view: TreeView, node: SubagentNode) -> str:
        """Queue, worker processes, and the Celery tasks that the run took."""
        queue = queue_for(node.agent, self.stage.settings)
        processes = view.processes(node.run_id)
        pids = ", ".join(str(self.process_ids.get(process, process)) for process in processes)
        first, *more = view.task_ids(node.run_id)
        tasks = " ".join([first, *(task.removeprefix(node.run_id) for task in more)])
        return f"queue {queue}, worker {f'pid {pids}' if pids else '-'}, task {tasks}"


def _process_ids(stage: Stage) -> Mapping[str, int]:
    workers = connections_for(stage.settings).catalogue.snapshot(fresh=True).workers
    return {worker.process: worker.pid for worker in workers.values()}
