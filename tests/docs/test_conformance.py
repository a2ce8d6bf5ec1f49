"""The conformance tables of docs/agentspec.md: no row without a test, no test that is not there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from tests.docs.fenced import PROJECT

_NODE = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
_TABLES = ("Situations", "Upstream's tests")


def rows(title: str) -> list[list[str]]:
    """The cells of the table below a heading, without its own two lines."""
    page = (PROJECT / "docs" / "agentspec.md").read_text(encoding="utf-8")
    section = page.partition(f"\n### {title}\n")[2].partition("\n#")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@cache
def functions(path: Path) -> frozenset[str]:
    """The tests that a file defines."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(
        node.name for node in tree.body if isinstance(node, kinds) and node.name.startswith("test_")
    )


@pytest.mark.parametrize("title", _TABLES)
def test_each_row_says_what_both_do_and_which_test_holds_it(title: str) -> None:
    found = rows(title)
    assert len(found) > 30
    behaviours = [cells[0] for cells in found]
    assert len(set(behaviours)) == len(behaviours)
    assert [cells for cells in found if len(cells) != 4 or not all(cells)] == []
    # Nothing but tests in the last cell: one that is misspelt is no test.
    assert [cells[0] for cells in found if _NODE.sub("", cells[3]).strip(", ") or not cells[3]] == []


@pytest.mark.parametrize("title", _TABLES)
def test_each_test_that_a_row_names_exists(title: str) -> None:
    named = [node for cells in rows(title) for node in _NODE.findall(cells[3])]
    assert named
    assert [
        f"{file}::{name}"
        for file, name in named
        if not (PROJECT / file).is_file() or name not in functions(PROJECT / file)
    ] == []


def test_every_deviation_has_its_reason_in_the_same_row() -> None:
    verdicts = [cells[2] for title in _TABLES for cells in rows(title)]
    deviations = [verdict for verdict in verdicts if verdict.startswith("deviation")]
    assert deviations
    assert [verdict for verdict in deviations if not verdict.startswith("deviation: ")] == []
