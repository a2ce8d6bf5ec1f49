"""What a launch allows: toolsets and blocked tools. A grant can only become narrower down the tree."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from pydantic import BaseModel, ConfigDict

from retinue.agents.tools.api_name import api_name
from retinue.contract import ErrorCode, SubagentLifecycleError


class Grant(BaseModel):
    """The tools that a run may use, as far as its launch and its ancestors' launches are concerned.

    Args:
        toolsets: None = no launch up the tree narrowed them. Empty = no tool at all, not even delegation.
        blocked_tools: tools that may not be used, by name or API name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    toolsets: tuple[str, ...] | None = None
    blocked_tools: tuple[str, ...] = ()

    def allows(self, tool: str, toolset: str) -> bool:
        """Whether the tool may be called; asked when the run starts, and again before each call."""
        return (self.toolsets is None or toolset in self.toolsets) and not self.blocks(tool)

    def blocks(self, tool: str) -> bool:
        """Whether the tool is blocked by name."""
        names = {tool, api_name(tool)}
        return any(blocked in names or api_name(blocked) in names for blocked in self.blocked_tools)

    def allows_delegation(self, tool: str) -> bool:
        """Whether the built-in tool may be offered: in no toolset, but an empty grant removes it too."""
        return self.toolsets != () and not self.blocks(tool)

    def narrowed(self, toolsets: Iterable[str] | None = None, blocked_tools: Iterable[str] = ()) -> Self:
        """This grant within further bounds; the result allows nothing that this one does not.

        Args:
            toolsets: None = as here.
            blocked_tools: added to those of this grant.
        """
        if toolsets is None:
            kept = self.toolsets
        elif self.toolsets is None:
            kept = tuple(sorted(set(toolsets)))
        else:
            kept = tuple(sorted(set(toolsets) & set(self.toolsets)))
        blocked = tuple(sorted({*self.blocked_tools, *blocked_tools}))
        return type(self)(toolsets=kept, blocked_tools=blocked)

    def check_not_broadened(self, toolsets: Iterable[str] | None) -> None:
        """Refuse a child's launch that asks for a toolset outside this grant.

        Raises:
            SubagentLifecycleError: TOOLSET_BROADENING; names the toolsets.
        """
        if toolsets is None or self.toolsets is None:
            return
        beyond = sorted(set(toolsets) - set(self.toolsets))
        if beyond:
            raise SubagentLifecycleError(
                f"{', '.join(beyond)}: outside the parent's grant",
                field="allowed_toolsets",
                limit=", ".join(self.toolsets) or "no toolset",
                mend="ask for a part of what the parent has, or leave allowed_toolsets out to have the same",
                code=ErrorCode.TOOLSET_BROADENING,
            )


def check_known_toolsets(toolsets: Iterable[str] | None, known: Iterable[str]) -> None:
    """Refuse a launch that names a toolset which no worker advertises.

    Raises:
        SubagentLifecycleError: UNKNOWN_TOOLSET; names it and lists the known ones.
    """
    names = sorted(set(known))
    unknown = sorted(set(toolsets or ()) - set(names))
    if unknown:
        raise SubagentLifecycleError(
            f"{', '.join(unknown)}: no such toolset",
            field="allowed_toolsets",
            limit=", ".join(names) or "no toolset is known",
            mend="use a known toolset, or start a worker that has it",
            code=ErrorCode.UNKNOWN_TOOLSET,
        )
