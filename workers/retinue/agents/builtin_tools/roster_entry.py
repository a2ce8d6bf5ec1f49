"""One line of a roster: an agent that another one can reach."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class RosterEntry(BaseModel):
    """One sub-agent, as the model that may delegate to it sees it.

    Args:
        name: what the model calls it.
        description: one line about it.
        when_to_use: more of it.
        agent: its registered name. None = `name`.
        scope: registered name of the group that lets the model reach it. None = not through a group.
        sender: registered name of the member of that group as which the model writes: threads and circular
            calls are told apart by it. A group within the group is one member, whoever speaks for it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    description: str = ""
    when_to_use: str | None = None
    agent: str | None = None
    scope: str | None = None
    sender: str | None = None

    @property
    def registered(self) -> str:
        """The name by which it is launched."""
        return self.agent or self.name

    @property
    def line(self) -> str:
        """What a model reads about it."""
        description = f": {self.description}" if self.description else ""
        return f"- {self.name}{description}" + (f" ({self.when_to_use})" if self.when_to_use else "")
