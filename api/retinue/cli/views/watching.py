"""Shows a run and its tree while they work: a picture on a terminal, a line for each event elsewhere."""

from __future__ import annotations

import os
import shutil
from typing import IO, TYPE_CHECKING, Protocol

from retinue.cli.output import note, put, visible
from retinue.cli.views.event_lines import event_line
from retinue.cli.views.no_worker_hint import NoWorkerHint
from retinue.cli.views.tree_view import Detail, TreeView, tree_lines
from retinue.client.clock import WaitClock

if TYPE_CHECKING:
    from retinue.client import SubagentLifecycle
    from retinue.contract import Event, SubagentHandle

_LOOK_EVERY_S = 0.25


class Display(Protocol):
    """Where a tree is shown."""

    def event(self, view: TreeView, event: Event) -> None:
        """Something happened."""
        ...

    def refresh(self, view: TreeView) -> None:
        """All that has happened up to now was told."""
        ...

    def resume_below(self) -> None:
        """Somebody else has printed a line meanwhile."""
        ...


class Silence:
    """Shows nothing."""

    def event(self, view: TreeView, event: Event) -> None:
        """Nothing."""

    def refresh(self, view: TreeView) -> None:
        """Nothing."""

    def resume_below(self) -> None:
        """Nothing."""


class Lines:
    """A line for each event.

    Args:
        stream: where to.
        detail: what is said of a run when it starts, goes on or ends; None = nothing.
    """

    def __init__(self, stream: IO[str], detail: Detail | None = None) -> None:
        self._stream = stream
        self._detail = detail

    def event(self, view: TreeView, event: Event) -> None:
        """Prints it."""
        line = event_line(event, agent=view.agent(event.run_id))
        node = view.node(event.run_id) if self._detail is not None and event.type.startswith("run.") else None
        put(self._stream, line if node is None or self._detail is None else f"{line}  [{self._detail(node)}]")

    def refresh(self, view: TreeView) -> None:
        """Nothing: the lines stand."""

    def resume_below(self) -> None:
        """Nothing: the next line comes below by itself."""


class Picture:
    """The tree, drawn over itself.

    Args:
        stream: a terminal.
        detail: what is said of each run behind its state; None = what it has used.
    """

    def __init__(self, stream: IO[str], detail: Detail | None = None) -> None:
        self._stream = stream
        self._detail = detail
        self._drawn: list[str] = []

    def event(self, view: TreeView, event: Event) -> None:
        """Nothing: the next picture shows it."""

    def refresh(self, view: TreeView) -> None:
        """Draws the tree, if it has changed, as far as the terminal has room."""
        size = shutil.get_terminal_size()
        lines = [visible(line).replace("\n", " ") for line in tree_lines(view.nodes(), self._detail)]
        room = max(1, size.lines - 2)
        if len(lines) > room:
            lines = [*lines[: room - 1], f"... and {len(lines) - room + 1} more"]
        lines = [line[: max(1, size.columns - 1)] for line in lines]
        if lines == self._drawn:
            return
        back = f"\x1b[{len(self._drawn)}A\x1b[J" if self._drawn else ""
        self._stream.write(back + "".join(line + "\n" for line in lines))
        self._stream.flush()
        self._drawn = lines

    def resume_below(self) -> None:
        """Leaves the picture as it stands; the next change is drawn below."""
        self._drawn = []


class Watch:
    """Follows one run.

    Args:
        lifecycle: whose run it is.
        handle: the run.
        shown: None = nothing is shown.
        hint: says on standard error why a run does not start; None = nothing does.
    """

    def __init__(
        self,
        lifecycle: SubagentLifecycle,
        handle: SubagentHandle,
        shown: Display | None = None,
        hint: NoWorkerHint | None = None,
    ) -> None:
        self.view = TreeView(handle.subagent_id)
        self._lifecycle = lifecycle
        self._handle = handle
        self._display = shown or Silence()
        self._hint = hint
        self._after = 0

    def until_ended(self, clock: WaitClock | None = None) -> bool:
        """Returns once the run has ended, or the wait is over.

        Args:
            clock: of the wait; None = for ever.

        Returns:
            Whether the run has ended.
        """
        clock = clock or WaitClock()
        while True:
            ended = self._lifecycle.wait(self._handle, clock.pause(_LOOK_EVERY_S)).completed
            self._read()
            is_last = clock.is_over
            if not ended and self._hint is not None and (line := self._hint.line(is_last=is_last)):
                note(line)
                self._display.resume_below()
            if ended or is_last:
                return ended

    def _read(self) -> None:
        for event in self._lifecycle.events(self._handle, after=self._after):
            self._after = event.sequence
            self.view.add(event)
            self._display.event(self.view, event)
        self._display.refresh(self.view)


def display_on(stream: IO[str], detail: Detail | None = None) -> Display:
    """A picture for a terminal that can draw, lines for anything else."""
    if stream.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        return Picture(stream, detail)
    return Lines(stream, detail)
