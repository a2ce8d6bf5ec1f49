"""Everything that a worker can run, by name."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import ModuleType

from retinue.agents.agentspec.member import AgentSpecDeclaration
from retinue.agents.hooks import AnyHook
from retinue.agents.tools.tool import AnyTool
from retinue.contract import DeclarationError, ErrorCode, SubagentLifecycleError

from .collected import Collected
from .enrolment import Enrolment
from .entry import AgentEntry, ToolBinding


class Registry:
    """The agents, tools and toolsets of a worker; immutable once loaded.

    Args:
        collected: the declarations.
        bare_modules: those that were loaded and declare nothing at their top level.

    Raises:
        DeclarationError: they do not fit together; names the place.
    """

    def __init__(self, collected: Collected, bare_modules: tuple[str, ...] = ()) -> None:
        self.bare_modules = bare_modules
        self.document_members: tuple[str, ...] = ()
        self._tools: dict[str, AnyTool] = dict(collected.tools)
        self._hooks = tuple(collected.hooks)
        collected.place_members()
        self._agents = Enrolment(collected).entries()

    @classmethod
    def load(cls, modules: Iterable[str]) -> Registry:
        """Import the modules and take every agent, tool, hook and Agent Spec declaration at their top level.

        Args:
            modules: dotted names, from the settings.

        Raises:
            DeclarationError: a module cannot be found, or two things have one name; names both places.
        """
        collected, bare = Collected(), list[str]()
        for name in modules:
            module = _import(name)
            found = [
                collected.add(value, f"{name}:{variable}") for variable, value in list(vars(module).items())
            ]
            if not any(found):
                bare.append(name)
        return cls(collected, tuple(bare))

    @classmethod
    def from_objects(cls, *objects: object) -> Registry:
        """A registry of the given declarations, for tests and small programs.

        Raises:
            DeclarationError: as `load`.
        """
        collected = Collected()
        for number, value in enumerate(objects):
            collected.add(value, f"argument {number}")
        return cls(collected)

    def with_document(
        self, document: AgentSpecDeclaration, *, tools: Mapping[str, AnyTool] | None = None
    ) -> Registry:
        """This registry, and beside it the agents of a document that came with a launch.

        They use the registered tools, and stand before registered agents of the same name.

        Args:
            document: loaded.
            tools: further ones, by name.

        Raises:
            DeclarationError: a tool that the document names is not registered; lists all that are missing.
        """
        collected = Collected(tools={**(tools or {}), **self._tools}, hooks=list(self._hooks))
        collected.add(document, "the launch's document")
        result = Registry(collected, self.bare_modules)
        result.document_members = tuple(sorted(result._agents))
        brought = {name: _from_launch(entry) for name, entry in result._agents.items()}
        result._agents = {**self._agents, **brought}
        return result

    def check_in_document(self, name: str) -> None:
        """Refuse a launch of an agent that the document does not have.

        Raises:
            SubagentLifecycleError: UNKNOWN_AGENT; lists those that it has.
        """
        if name not in self.document_members:
            raise SubagentLifecycleError(
                f"the document has no agent {name!r}",
                field="agent",
                limit=", ".join(self.document_members),
                mend="name one of its agents, or leave agent out to launch its outermost",
                code=ErrorCode.UNKNOWN_AGENT,
            )

    @property
    def agents(self) -> Mapping[str, AgentEntry]:
        """Every agent by name."""
        return self._agents

    @property
    def tools(self) -> Mapping[str, AnyTool]:
        """Every tool by name."""
        return self._tools

    @property
    def hooks(self) -> tuple[AnyHook, ...]:
        """Every hook, in the order of declaration."""
        return self._hooks

    @property
    def toolsets(self) -> dict[str, tuple[str, ...]]:
        """The names of each toolset's tools."""
        result: dict[str, list[str]] = {}
        for item in self._tools.values():
            result.setdefault(item.toolset, []).append(item.name)
        return {name: tuple(sorted(result[name])) for name in sorted(result)}

    def find_agent(self, name: str) -> AgentEntry | None:
        """The agent of that name, or None."""
        return self._agents.get(name)

    def find_tool(self, name: str) -> AnyTool | None:
        """The tool of that name, or None: a suspended run may know a tool that the code has no more."""
        return self._tools.get(name)

    def agent(self, name: str) -> AgentEntry:
        """The agent of that name.

        Raises:
            SubagentLifecycleError: UNKNOWN_AGENT; lists the known ones.
        """
        found = self._agents.get(name)
        if found is None:
            near = difflib.get_close_matches(name, self._agents, n=1)
            raise SubagentLifecycleError(
                f"no agent is named {name!r}" + (f" (did you mean {near[0]!r}?)" if near else ""),
                field="agent",
                limit=", ".join(sorted(self._agents)) or "no agent is registered",
                mend="name a registered agent, or add its module to the setting agents",
                code=ErrorCode.UNKNOWN_AGENT,
            )
        return found


def _from_launch(entry: AgentEntry) -> AgentEntry:
    """The entry, marked so that no credential of the settings goes where the document says."""
    mark = {"by_value": True}
    tools: list[ToolBinding] = []
    for item in entry.tools:
        remote = item.remote and item.remote.model_copy(update=mark)
        mcp = item.mcp and item.mcp.model_copy(update={"server": item.mcp.server.model_copy(update=mark)})
        tools.append(replace(item, remote=remote, mcp=mcp))
    llm = entry.llm and entry.llm.model_copy(update=mark)
    return replace(entry, llm=llm, tools=tuple(tools))


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # Only the module itself; what is missing within it must keep its own traceback.
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise
        raise DeclarationError(
            f"module {name!r} cannot be found",
            field="agents",
            mend="correct RETINUE_AGENTS, or start the worker where the module can be imported",
        ) from error
