from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from retinue.agents import Agent, DeclarationError, Registry, SubAgent, SubAgentSpec, tool
from retinue.contract import ErrorCode, SubagentLifecycleError

ModuleWriter = Callable[[str, str], str]

HANDBOOK = '''
from retinue.agents import Agent, SubAgentSpec, tool

@tool(toolset="handbook", read_only=True)
def search_handbook(query: str) -> str:
    """Find passages in the staff handbook."""
    return query

researcher = SubAgentSpec(name="researcher", description="Answers from the handbook.", tools=["handbook"])
support = Agent(
    name="support", instructions="Help the customer.", model="gpt-5-mini", sub_agents=[researcher]
)
'''


@pytest.fixture
def write_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleWriter:
    monkeypatch.syspath_prepend(tmp_path)

    def write(name: str, text: str) -> str:
        (tmp_path / f"{name}.py").write_text(text)
        return name

    return write


@tool
def search(query: str) -> str:
    return query


def test_a_modules_agents_tools_and_toolsets_are_found(write_module: ModuleWriter) -> None:
    registry = Registry.load([write_module("shop_one", HANDBOOK)])
    assert set(registry.agents) == {"researcher", "support"}
    assert registry.toolsets == {"handbook": ("search_handbook",)}
    assert registry.agent("researcher").place == "shop_one:researcher"
    assert [item.name for item in registry.agent("support").roster] == ["researcher"]


def test_an_object_imported_into_another_module_is_no_duplicate(write_module: ModuleWriter) -> None:
    names = [write_module("shop_two", HANDBOOK), write_module("shop_two_too", "from shop_two import *\n")]
    assert set(Registry.load(names).agents) == {"researcher", "support"}


def test_two_agents_of_one_name_stop_the_worker_and_name_both_places(write_module: ModuleWriter) -> None:
    names = [write_module("shop_three", HANDBOOK), write_module("shop_four", HANDBOOK)]
    with pytest.raises(DeclarationError, match="search_handbook") as caught:
        Registry.load(names)
    assert "shop_three.search_handbook" in str(caught.value)
    assert "shop_four.search_handbook" in str(caught.value)
    other = SubAgentSpec(name="a", description="d")
    with pytest.raises(DeclarationError, match=r"'a': at argument 0 and at argument 1.sub_agents\[0\]"):
        Registry.from_objects(
            SubAgentSpec(name="a", description="d"), Agent(name="b", instructions="x", sub_agents=[other])
        )


def test_sub_agents_are_registered_at_any_depth_with_their_tools() -> None:
    inner = Agent(name="c", instructions="x", tools=[search])
    middle = SubAgent(
        name="b", agent=Agent(name="unlisted", instructions="x", sub_agents=[inner]), description="d"
    )
    registry = Registry.from_objects(Agent(name="a", instructions="x", sub_agents=[middle]))
    assert set(registry.agents) == {"a", "b", "c"}
    assert set(registry.tools) == {"search"}


def test_an_agent_under_another_name_keeps_its_behaviour() -> None:
    inner = Agent(name="a", instructions="Be brief.", model="m", tools=[search])
    wrapped = SubAgent(name="brief", agent=inner, description="Short answers.", when_to_use="often")
    entry = Registry.from_objects(wrapped).agent("brief")
    assert (entry.prompt, entry.model, entry.description, entry.when_to_use) == (
        "Be brief.",
        "m",
        "Short answers.",
        "often",
    )
    assert [item.tool.name for item in entry.tools] == ["search"]
    assert entry.target is None


def test_the_same_function_in_two_agents_is_one_tool() -> None:
    def act(x: int) -> int:
        return x

    registry = Registry.from_objects(
        Agent(name="a", instructions="x", tools=[act]), Agent(name="b", instructions="x", tools=[act])
    )
    assert set(registry.tools) == {"act"}


def test_tools_and_toolsets_may_be_named() -> None:
    first = tool(name="first", toolset="pair")(lambda: None)
    second = tool(name="second", toolset="pair")(lambda: None)
    agents = (
        Agent(name="a", instructions="x", tools=["search"]),
        Agent(name="b", instructions="x", tools=["pair"]),
    )
    registry = Registry.from_objects(search, first, second, *agents)
    assert [item.tool.name for item in registry.agent("a").tools] == ["search"]
    assert [item.tool.name for item in registry.agent("b").tools] == ["first", "second"]


def test_a_named_tool_that_is_not_registered_lists_those_that_are() -> None:
    with pytest.raises(DeclarationError, match=r"'serch' of agent 'a' is not registered.*search"):
        Registry.from_objects(search, Agent(name="a", instructions="x", tools=["serch"]))


def test_two_tools_with_one_name_for_the_model_are_refused() -> None:
    first, second = tool(name="a b")(lambda: None), tool(name="a_b")(lambda: None)
    with pytest.raises(DeclarationError, match="'a_b'"):
        Registry.from_objects(Agent(name="a", instructions="x", tools=[first, second]))


def test_an_unknown_agent_lists_the_known_ones_and_the_near_one() -> None:
    registry = Registry.from_objects(Agent(name="support", instructions="x"))
    with pytest.raises(SubagentLifecycleError, match=r"did you mean 'support'\?") as caught:
        registry.agent("suport")
    assert caught.value.code is ErrorCode.UNKNOWN_AGENT
    assert registry.find_agent("suport") is None
    assert registry.find_tool("gone") is None


def test_a_module_that_is_not_there_is_told_from_one_that_fails(write_module: ModuleWriter) -> None:
    with pytest.raises(DeclarationError, match=r"'shop_absent\.agents' cannot be found"):
        Registry.load(["shop_absent.agents"])
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
        Registry.load([write_module("shop_broken", "import no_such_dependency\n")])


def test_lazy_objects_that_a_module_imports_are_not_woken(write_module: ModuleWriter) -> None:
    lazy = (
        "class Lazy:\n"
        "    @property\n"
        "    def __class__(self):\n"
        "        raise RuntimeError('not configured')\n"
        "settings = Lazy()\n"
    )
    assert not Registry.load([write_module("shop_lazy", lazy)]).agents


def test_a_module_that_declares_nothing_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop_bare.py").write_text("def agents(): ...\n")
    (tmp_path / "shop_tools.py").write_text(
        "from retinue.agents import tool\n@tool\ndef peel(x: int) -> int: ...\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert Registry.load(["shop_bare", "shop_tools"]).bare_modules == ("shop_bare",)
