from __future__ import annotations

import io
import os
from dataclasses import replace

import pytest

from retinue.cli.views.event_lines import event_line
from retinue.cli.views.tree_view import TreeView, total_usage, tree_lines, usage_text
from retinue.cli.views.watching import Lines, Picture, display_on
from retinue.contract import Event, SubagentState, Usage, child_run_id, new_run_id

ROOT = new_run_id(7)
CHILD = child_run_id(ROOT, 1, 0, 0)


def log() -> list[Event]:
    lines = [
        f'{{"e":"run.created","r":"{ROOT}","t":1000,"agent":"lead","parent_id":null,"path":"0/"}}',
        f'{{"e":"run.started","r":"{ROOT}","t":1001,"attempt":1,"process":"p1"}}',
        f'{{"e":"run.created","r":"{CHILD}","t":1002,"agent":"helper","parent_id":"{ROOT}","path":"0/0/"}}',
        f'{{"e":"run.suspended","r":"{ROOT}","t":1003,"phase":"waiting_children","open":1}}',
        f'{{"e":"run.started","r":"{CHILD}","t":1004,"attempt":1,"process":"p2"}}',
        f'{{"e":"model.finished","r":"{CHILD}","t":1005,"iteration":1,"input_tokens":1200,"output_tokens":5}}',
        f'{{"e":"run.finished","r":"{CHILD}","t":1006,"state":"SUCCEEDED","classification":null}}',
        f'{{"e":"run.resumed","r":"{ROOT}","t":1007,"wakeup":2}}',
        f'{{"e":"run.started","r":"{ROOT}","t":1008,"attempt":1,"process":"p1"}}',
    ]
    return [Event.from_json(number, line) for number, line in enumerate(lines, start=1)]


@pytest.fixture
def view() -> TreeView:
    made = TreeView(ROOT)
    for event in log():
        made.add(event)
    return made


def test_a_tree_is_shown_parents_first_with_states_and_usage(view: TreeView) -> None:
    root, child = tree_lines(view.nodes())

    assert root.startswith("lead ")
    assert "STARTING claimed" in root
    assert child.startswith("└─ helper")
    assert "SUCCEEDED" in child
    assert child.endswith("1 model calls, 0 tool calls, 1,200+5 tokens")


def test_a_run_tells_the_processes_and_celery_tasks_that_it_took(view: TreeView) -> None:
    assert view.processes(ROOT) == ("p1",)
    assert view.processes(CHILD) == ("p2",)
    assert view.task_ids(ROOT) == (f"{ROOT}.1", f"{ROOT}.2")
    assert view.task_ids(CHILD) == (f"{CHILD}.1",)


def test_a_run_is_found_by_its_id(view: TreeView) -> None:
    found = view.node(CHILD)

    assert found is not None
    assert found.state is SubagentState.SUCCEEDED
    assert view.node(child_run_id(ROOT, 9, 9, 9)) is None


def test_the_total_is_that_of_the_runs_whose_usage_is_known(view: TreeView) -> None:
    assert total_usage(view.nodes()) == Usage(model_calls=1, input_tokens=1200, output_tokens=5)
    assert usage_text(None) == "usage unknown"


def test_a_cost_is_shown_where_it_is_known() -> None:
    used = Usage(model_calls=1, input_tokens=7, output_tokens=2, cost_usd=0.000123)
    assert usage_text(used) == "1 model calls, 0 tool calls, 7+2 tokens, USD 0.000123"
    assert "USD" not in usage_text(replace(used, cost_usd=None))


def test_an_event_is_one_line_without_what_it_does_not_say() -> None:
    finished = log()[6]

    line = event_line(finished, agent="helper")
    assert line.startswith("   7 ")
    assert line.endswith("helper run.finished state=SUCCEEDED")


def test_lines_say_more_of_a_run_where_it_moves(view: TreeView) -> None:
    stream = io.StringIO()
    lines = Lines(stream, lambda node: f"queue of {node.agent}")
    for event in log()[4:6]:
        lines.event(view, event)

    started, model = stream.getvalue().splitlines()
    assert started.endswith("[queue of helper]")
    assert not model.endswith("]")


def test_a_picture_is_drawn_over_the_last_one_and_only_when_it_changed() -> None:
    stream, view = io.StringIO(), TreeView(ROOT)
    picture = Picture(stream)
    view.add(log()[0])
    picture.refresh(view)
    first = stream.getvalue()
    picture.refresh(view)
    unchanged = stream.getvalue()
    for event in log()[1:]:
        view.add(event)
    picture.refresh(view)

    assert first == unchanged
    assert stream.getvalue().removeprefix(first).startswith("\x1b[1A\x1b[J")
    assert stream.getvalue().count("helper") == 1


def test_a_name_in_a_picture_cannot_act_on_the_terminal() -> None:
    stream, view = io.StringIO(), TreeView(ROOT)
    raw = f'{{"e":"run.created","r":"{ROOT}","t":1,"agent":"\\u001b[2Jx","parent_id":null,"path":"0/"}}'
    view.add(Event.from_json(1, raw))
    Picture(stream).refresh(view)

    assert "\x1b" not in stream.getvalue()


def test_a_picture_leaves_out_what_the_terminal_has_no_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_, **__: os.terminal_size((30, 6)))
    stream, view = io.StringIO(), TreeView(ROOT)
    view.add(log()[0])
    for number in range(20):
        run_id = child_run_id(ROOT, 1, number, 0)
        data = f'"agent":"a","parent_id":"{ROOT}","path":"0/{number}/"'
        raw = f'{{"e":"run.created","r":"{run_id}","t":1,{data}}}'
        view.add(Event.from_json(number + 2, raw))
    Picture(stream).refresh(view)

    lines = stream.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[-1] == "... and 18 more"
    assert max(map(len, lines)) < 30


def test_what_is_no_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(display_on(io.StringIO()), Lines)
    assert isinstance(display_on(Terminal()), Picture)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(display_on(Terminal()), Lines)
