from __future__ import annotations

from retinue.agents.agentspec.placeholders import PromptInput, fill, placeholders


def test_placeholders_are_found_once_each_in_order() -> None:
    assert placeholders("{{b}} {{ a }} {{b}} {{x.y}} {% if %} {c}") == ("b", "a")


def test_values_are_filled_in_one_pass() -> None:
    assert fill("{{a}}-{{ b }}-{{c}}", {"a": "{{b}}", "b": 2}) == "{{b}}-2-{{c}}"


def test_a_default_stands_in_and_a_value_wins_over_it() -> None:
    inputs = (PromptInput("a", has_default=True, default="x"),)
    assert fill("{{a}}", {}, inputs) == "x"
    assert fill("{{a}}", {"a": [1]}, inputs) == "[1]"


def test_types_are_told_apart() -> None:
    assert PromptInput("a").accepts("x")
    assert not PromptInput("a").accepts(3)
    assert PromptInput("a", types=("number",)).accepts(3)
    assert not PromptInput("a", types=("number",)).accepts(True)
    assert PromptInput("a", types=()).accepts({})
    assert PromptInput("a", types=("object", "null")).accepts(None)
