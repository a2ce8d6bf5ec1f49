"""docs/reliability.md: each test that it names exists."""

from __future__ import annotations

import re

from tests.docs.fenced import PROJECT
from tests.docs.test_conformance import functions

_NAMED = re.compile(r"`((?:acceptance|integration|unit)/[\w/]+\.py)(?:::(\w+))?`")


def test_each_promise_names_tests_and_each_test_exists() -> None:
    page = (PROJECT / "docs" / "reliability.md").read_text(encoding="utf-8")
    promises = [line for line in page.partition("## Durability")[0].splitlines() if line.startswith("| **")]
    assert len(promises) >= 10
    assert [line for line in promises if not _NAMED.search(line.rpartition(" | ")[2])] == []
    assert [
        f"{file}::{name}"
        for file, name in _NAMED.findall(page)
        if not (PROJECT / "tests" / file).is_file()
        or (name and name not in functions(PROJECT / "tests" / file))
    ] == []
