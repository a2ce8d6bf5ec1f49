from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from retinue.agents import DeclarationError, Tool, ToolContext, tool
from retinue.agents.tools.tool import as_tools

if TYPE_CHECKING:
    from decimal import Decimal


def test_a_bare_decorator_takes_name_and_docstring_and_makes_its_own_toolset() -> None:
    @tool
    def look_up(query: str) -> str:
        """Find a page.

        Args:
            query: what to look for.
        """
        return query.upper()

    assert isinstance(look_up, Tool)
    assert (look_up.name, look_up.toolset, look_up.description) == ("look_up", "look_up", "Find a page.")
    assert look_up("a") == "A"  # still the function that it was


def test_names_may_hold_spaces_and_the_model_sees_an_api_name() -> None:
    @tool(name="Check refund eligibility", toolset="shop")
    def check(order_id: str) -> bool:
        return True

    assert check.name == "Check refund eligibility"
    assert check.api_name == "Check_refund_eligibility"
    assert check.toolset == "shop"


@pytest.mark.parametrize("name", ["run_agent", "list_agents", "send message"])
def test_names_of_built_in_tools_are_refused(name: str) -> None:
    with pytest.raises(DeclarationError, match="built-in tool"):
        tool(name=name)(lambda: None)


@pytest.mark.parametrize("name", ["", "  ", " a", "a\n", "x" * 201])
def test_a_name_that_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(DeclarationError, match="is no name"):
        tool(name=name)(lambda: None)


def test_what_is_no_plain_function_is_refused() -> None:
    with pytest.raises(DeclarationError, match="not a plain function"):
        tool(functools.partial(print, "x"))


def test_generators_are_refused() -> None:
    def pages() -> Iterator[int]:
        yield 1

    with pytest.raises(DeclarationError, match="yields"):
        tool(pages)


@pytest.mark.parametrize(("read_only", "idempotent"), [(True, False), (False, True)])
def test_read_only_and_idempotent_tools_run_again(read_only: bool, idempotent: bool) -> None:
    def act() -> None: ...

    assert tool(read_only=read_only, idempotent=idempotent)(act).runs_again
    assert not tool(act).runs_again


def test_the_context_is_injected_by_annotation_and_hidden_from_the_model(context: ToolContext) -> None:
    @tool
    def note(where: ToolContext, text: str, times: int = 1) -> str:
        return f"{where.agent}:{text * times}"

    assert list(note.parameters["properties"]) == ["text", "times"]  # pyright: ignore[reportArgumentType]
    assert note.bind(note.check('{"text": "x", "times": "3"}'), context)() == "support:xxx"


def test_an_optional_context_is_injected_too(context: ToolContext) -> None:
    @tool
    def note(text: str, where: ToolContext | None = None) -> bool:
        return where is context

    assert note.bind(note.check({"text": "x"}), context)() is True


def test_a_parameter_named_ctx_without_annotation_is_injected(context: ToolContext) -> None:
    @tool
    def note(ctx, text: str):  # pyright: ignore
        return ctx.session_id

    assert note.bind(note.check({"text": "x"}), context)() == "s"


def test_a_parameter_named_ctx_with_another_annotation_is_the_models(context: ToolContext) -> None:
    @tool
    def note(ctx: str) -> str:
        return ctx

    assert note.bind(note.check({"ctx": "mine"}), context)() == "mine"


def test_a_missing_argument_keeps_the_functions_own_default(context: ToolContext) -> None:
    marker = object()

    @tool
    def act(query: str, flag: object = marker) -> bool:
        return flag is marker

    assert act.bind(act.check({"query": "x"}), context)() is True


def test_positional_only_parameters_are_filled(context: ToolContext) -> None:
    @tool
    def act(a: int, b: int = 2, c: int = 3, /, d: int = 4) -> tuple[int, int, int, int]:
        return a, b, c, d

    assert act.bind(act.check({"a": 1, "c": 9}), context)() == (1, 2, 9, 4)


async def test_a_coroutine_function_is_known_as_one(context: ToolContext) -> None:
    @tool
    async def fetch(query: str) -> str:
        return query

    assert fetch.is_async
    call = fetch.bind(fetch.check({"query": "q"}), context)()
    assert await call == "q"  # pyright: ignore[reportGeneralTypeIssues]


def test_a_return_type_for_checkers_only_does_no_harm() -> None:
    @tool
    def price(item: str) -> Decimal: ...

    assert price.schema.names == ("item",)


def test_a_parameter_type_that_cannot_be_read_names_the_parameter() -> None:
    def price(amount: Decimal) -> None: ...

    with pytest.raises(DeclarationError, match=r"parameter 'amount'.*top level"):
        tool(price)


def test_parameters_that_a_model_cannot_fill_are_refused() -> None:
    def starred(*items: str) -> None: ...
    def keywords(**items: str) -> None: ...
    def method(self, x: int) -> None: ...  # pyright: ignore

    for function, text in ((starred, "items"), (keywords, "items"), (method, "plain function")):
        with pytest.raises(DeclarationError, match=text):
            tool(function)  # pyright: ignore[reportArgumentType]


def test_an_agents_tools_are_tools_names_and_functions() -> None:
    def plain(x: int) -> int:
        return x

    found = as_tools([tool(name="a")(plain), "b", plain], owner="x")
    assert [item if isinstance(item, str) else item.name for item in found] == ["a", "b", "plain"]


def test_an_agents_tools_refuse_other_things_and_doubles() -> None:
    with pytest.raises(DeclarationError, match=r"tools\[0\] of x is a int"):
        as_tools([3], owner="x")
    with pytest.raises(DeclarationError, match="is text"):
        as_tools("search", owner="x")
    with pytest.raises(DeclarationError, match="twice"):
        as_tools(["a", "a"], owner="x")


def test_what_is_not_to_be_shown_are_parameters_that_a_model_fills() -> None:
    @tool(requires_confirmation=True, redact=["pin"])
    def pay(amount: int, pin: str, ctx: ToolContext) -> str:
        """Pay."""
        return f"{amount} {pin} {ctx}"

    assert pay.redact == ("pin",)
    for wrong in ("secret", "ctx"):
        with pytest.raises(DeclarationError, match=f"no parameter '{wrong}'"):
            tool(redact=[wrong])(pay.function)
