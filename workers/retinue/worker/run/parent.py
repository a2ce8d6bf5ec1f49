"""A run as the parent of what its own code launches: the binding that the client's facade finds."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager

from retinue.agents.tools.tool_context import LifecycleService
from retinue.client.launching.documents import DocumentOrigin
from retinue.client.lifecycle import SubagentLifecycle
from retinue.client.parent import ParentBinding
from retinue.worker.run.held import HeldRun
from retinue.worker.services import Services


class RunningCall:
    """One tool call of a held run, as seen by the facade that the tool uses.

    Args:
        services: The process's.
        run: The run whose code launches.
        index: The tool call within its response.
    """

    def __init__(self, services: Services, run: HeldRun, index: int) -> None:
        self._services = services
        self._run = run
        self._index = index
        self._children = 0
        self._lock = threading.Lock()

    def binding(self) -> ParentBinding:
        """What a launch must know of its parent."""
        return binding_of(self._run, self._index)

    def next_child(self) -> int:
        """Numbers the call's launches from 1 on: a repeated tool finds its children under the same numbers.

        0 is the child that the model itself asked for by this call.
        """
        with self._lock:
            self._children += 1
            return self._children

    @contextmanager
    def lend(self) -> Generator[None]:
        """Gives the run's slot to another while it waits; it has one only, however many of its calls wait."""
        slots = self._services.slots
        self._run.begin_wait(slots)
        try:
            yield
        finally:
            self._run.end_wait(slots)

    def facade(self) -> LifecycleService:
        """The lifecycle facade bound to the run."""
        return SubagentLifecycle.of_parent(self, settings=self._services.settings)


def binding_of(run: HeldRun, index: int) -> ParentBinding:
    """The binding for a launch by a call of this run."""
    spec = run.spec
    return ParentBinding(
        tenant=run.key.tenant,
        session_id=run.record.session_id,
        run_id=run.key.run_id,
        epoch=run.fence.epoch,
        token=run.fence.token,
        iteration=run.iteration,
        call_index=index,
        root_id=run.record.root_id,
        depth=run.record.depth,
        max_depth=run.record.max_depth,
        agent=spec.agent,
        role=spec.role,
        roster=tuple(entry.registered for entry in spec.roster),
        grant=run.grant,
        inheritance=spec.inheritance(),
        working_directory=run.ticket.request.working_directory,
        document=_document(run),
    )


def _document(run: HeldRun) -> DocumentOrigin | None:
    digest = run.record.document
    if digest is None:
        return None
    return DocumentOrigin(digest, run.ticket.document or run.key.run_id, frozenset(run.spec.document_members))
