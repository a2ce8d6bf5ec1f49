"""The examples in docstrings, run."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI, RateLimitError
from tests.docs.fenced import PROJECT

from retinue.testing import ScriptedServer, rate_limited

ROOTS = ("broker_config", "workers", "api")


def _with_examples() -> list[str]:
    """The modules that hold an interactive example."""
    found: list[str] = []
    for root in ROOTS:
        for path in sorted((PROJECT / root / "retinue").rglob("*.py")):
            if re.search(r"^\s*>>> ", path.read_text(encoding="utf-8"), re.MULTILINE):
                found.append(_module(path.relative_to(PROJECT / root)))
    return found


def _module(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("name", _with_examples())
def test_interactive_examples_give_what_they_say(name: str) -> None:
    outcome = doctest.testmod(importlib.import_module(name))

    assert outcome.attempted > 0
    assert outcome.failed == 0


def test_the_scripted_servers_example_answers_as_its_script_says() -> None:
    docstring = inspect.getdoc(ScriptedServer) or ""
    example = textwrap.dedent(docstring[docstring.index("    with ScriptedServer") :])
    names: dict[str, Any] = {"OpenAI": OpenAI, "ScriptedServer": ScriptedServer, "rate_limited": rate_limited}
    exec(f"{example}\n    talk(client)", {**names, "talk": _talk})


def _talk(client: OpenAI) -> None:
    """A researcher's conversation; the second turn of the example's script is refused once."""
    history: list[Any] = [
        {"role": "system", "content": "You are researcher."},
        {"role": "user", "content": "returns"},
    ]
    with client.with_options(max_retries=0) as once:
        create = once.chat.completions.create
        asked = create(model="m", messages=history).choices[0].message
        assert asked.tool_calls is not None
        (call,) = asked.tool_calls
        assert call.model_dump()["function"] == {
            "name": "search_handbook",
            "arguments": '{"query": "returns"}',
        }
        history += [asked, {"role": "tool", "tool_call_id": call.id, "content": "14 days"}]
        with pytest.raises(RateLimitError):
            create(model="m", messages=history)
        said = create(model="m", messages=history).choices[0].message.content

    assert said == "The handbook says: 14 days"
