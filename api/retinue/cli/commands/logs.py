"""`retinue logs`: what happens in all trees that are live, in one log."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from retinue.cli.options import Tenant
from retinue.cli.output import document, note, reporting, say
from retinue.cli.views.event_lines import event_line

if TYPE_CHECKING:
    from retinue.cli.views.tree_view import TreeView
    from retinue.client import SubagentLifecycle
    from retinue.contract import Event

_LOOK_EVERY_S: Final = 0.5
_MOST_TREES: Final = 200
_ALL: Final = 1_000_000


def logs(
    session: Annotated[
        str | None, typer.Option("--session", "-s", help="Of this session only, also trees that have ended.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    tail: Annotated[int, typer.Option(min=0, metavar="N", help="Events of each tree to begin with.")] = 20,
    tenant: Tenant = "_",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document for each event.")] = False,
) -> None:
    """Print what happens in all trees that are live; of one run see `retinue events`.

    Without --session a tree that is over within half a second may be missed.
    """
    with reporting(as_json):
        from retinue.cli.facade import operator

        with operator(tenant) as lifecycle:
            log = Logs(lifecycle, as_json=as_json)
            while True:
                roots, left_out = _roots(lifecycle, tenant, session)
                log.read(roots, tail=tail)
                if left_out and not follow:
                    note(f"... and {left_out} more trees")
                if not follow:
                    return
                # What begins while this runs is told from its first event on.
                tail = _ALL
                time.sleep(_LOOK_EVERY_S)


class Logs:
    """The logs of several trees, read on from where each was left.

    Args:
        lifecycle: An operator's.
        as_json: JSON in place of lines.
    """

    def __init__(self, lifecycle: SubagentLifecycle, *, as_json: bool) -> None:
        self._lifecycle = lifecycle
        self._as_json = as_json
        self._trees: dict[str, tuple[TreeView, int]] = {}

    def read(self, roots: Iterable[str], *, tail: int) -> None:
        """Prints what is new, in the order in which it happened.

        Args:
            roots: Trees that are to be told of; of one that was and is no longer among them, the rest is.
            tail: How many of the last events of a tree that is new here.
        """
        from retinue.cli.views.tree_view import TreeView

        now = list(dict.fromkeys(roots))
        found: list[tuple[Event, str]] = []
        for root in [*now, *(root for root in self._trees if root not in now)]:
            is_new = root not in self._trees
            view, after = self._trees.setdefault(root, (TreeView(root), 0))
            events = list(self._lifecycle.events(root, after=after))
            for event in events:
                view.add(event)
            told = events[max(0, len(events) - tail) :] if is_new else events
            found += [(event, view.agent(event.run_id)) for event in told]
            self._trees[root] = view, events[-1].sequence if events else after
        for gone in [root for root in self._trees if root not in now]:
            del self._trees[gone]
        for event, agent in sorted(found, key=lambda each: each[0].at):
            self._print(event, agent)

    def _print(self, event: Event, agent: str) -> None:
        if self._as_json:
            document({**event.to_dict(), "agent": agent})
        else:
            say(event_line(event, agent=f"{event.run_id} {agent}"))


def _roots(lifecycle: SubagentLifecycle, tenant: str, session: str | None) -> tuple[tuple[str, ...], int]:
    """The trees to tell of, the oldest first, and how many more there are."""
    from retinue.broker.settings import load_settings
    from retinue.client.dispatch.connections import connections_for
    from retinue.client.reading.live_runs import live_roots

    if session is None:
        roots, left_out = live_roots(connections_for(load_settings()).link, tenant, most=_MOST_TREES)
        return roots[::-1], left_out
    found = lifecycle.list(session_id=session, limit=_MOST_TREES)
    return tuple(status.handle.subagent_id for status in reversed(found) if status.handle is not None), 0
