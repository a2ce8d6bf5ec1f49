"""A running tool call, as the worker offers it to the facade."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from retinue.agents.effective.effective import Inheritance
from retinue.agents.effective.grants import Grant
from retinue.client.parent import ParentBinding
from retinue.contract import Role, SubagentHandle
from retinue.store.replies import Fence


class ToolParent:
    """The call 0 of a run's first iteration."""

    def __init__(
        self,
        run: SubagentHandle,
        fence: Fence,
        *,
        depth: int = 0,
        max_depth: int = 4,
        grant: Grant | None = None,
    ) -> None:
        self.lent = 0
        self.lends = 0
        self._children = 0
        self._binding = ParentBinding(
            tenant="_",
            session_id=run.parent_session_id,
            run_id=run.subagent_id,
            epoch=fence.epoch,
            token=fence.token,
            iteration=1,
            call_index=0,
            root_id=run.subagent_id,
            depth=depth,
            max_depth=max_depth,
            agent="support",
            role=Role.LEAF,
            roster=(),
            grant=grant or Grant(),
            inheritance=Inheritance(model="gpt-5-mini", provider="openai"),
            working_directory=None,
        )

    def binding(self) -> ParentBinding:
        return self._binding

    def next_child(self) -> int:
        self._children += 1
        return self._children

    @contextmanager
    def lend(self) -> Generator[None]:
        self.lent += 1
        self.lends += 1
        try:
            yield
        finally:
            self.lent -= 1
