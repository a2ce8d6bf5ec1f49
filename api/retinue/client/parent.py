"""The run whose code is calling: how a launch inside a tool finds its parent."""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from retinue.contract import Role

if TYPE_CHECKING:
    # An application that only launches need not pay for the import of the declarations.
    from retinue.agents.effective.effective import Inheritance
    from retinue.agents.effective.grants import Grant
    from retinue.client.launching.documents import DocumentOrigin


@dataclass(frozen=True, slots=True)
class ParentBinding:
    """What a launch must know of its parent.

    Args:
        tenant, session_id: The parent's, and so the child's.
        run_id: The parent.
        epoch, token: The fence: an attempt that has lost its run launches nothing.
        iteration, call_index: The tool call that launches; the child's id is derived from them.
        root_id: The tree's root.
        depth, max_depth: Of the parent, and the tree's limit (inclusive).
        agent: The parent's active agent.
        role: Whom its model may delegate to.
        roster: The sub-agents that its declaration names.
        grant: What it and all its ancestors were granted.
        inheritance: What the child may take over.
        working_directory: The parent's, relative to the workspace root.
        document: The document that its agent stands in. None = workers have the agent.
    """

    tenant: str
    session_id: str
    run_id: str
    epoch: int
    token: str
    iteration: int
    call_index: int
    root_id: str
    depth: int
    max_depth: int
    agent: str
    role: Role
    roster: tuple[str, ...]
    grant: Grant
    inheritance: Inheritance
    working_directory: str | None
    document: DocumentOrigin | None = None


class ParentRun(Protocol):
    """A running tool call, as the worker offers it to the facade."""

    def binding(self) -> ParentBinding:
        """What a launch must know."""
        ...

    def next_child(self) -> int:
        """The number of the call's next launch, from 1 on."""
        ...

    def lend(self) -> AbstractContextManager[None]:
        """Gives the worker's slot away for the time of a wait."""
        ...


current_parent: ContextVar[ParentRun | None] = ContextVar("retinue_parent", default=None)
"""The running tool call of this context; None = outside of a run."""
