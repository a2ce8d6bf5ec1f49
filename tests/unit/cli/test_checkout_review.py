"""The tools of the example that `retinue demo` runs, on a small checkout."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def tools(pytestconfig: pytest.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(pytestconfig.rootpath / "examples"))
    monkeypatch.setenv("CHECKOUT_ROOT", str(tmp_path))
    (tmp_path / "pkg").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / ".venv").mkdir()
    (tmp_path / "pkg" / "big.py").write_text(
        '"""Does it.\n\nMore."""\nclass A:\n    def x(self): ...\n    async def y(self): ...\ndef f(): ...\n'
    )
    (tmp_path / "pkg" / "small.py").write_text("def g(): ...  # Find Me\n")
    (tmp_path / "tests" / "test_huge.py").write_text("\n" * 99)
    (tmp_path / ".venv" / "lib.py").write_text("\n" * 999)
    (tmp_path / "README.md").write_text("# Title\n")
    (tmp_path / "data.bin").write_bytes(b"\xff\xfe")

    return importlib.import_module("checkout_review.tools")


def test_files_and_lines_are_counted_by_language(tools: ModuleType) -> None:
    counted = tools.count_files()

    assert counted["languages"] == {
        "Python": {"files": 3, "lines": 107},
        "Markdown": {"files": 1, "lines": 1},
    }
    assert (counted["files"], counted["lines"]) == (4, 108)


def test_a_text_is_found_in_any_case(tools: ModuleType) -> None:
    assert tools.search_text("find me") == {
        "text": "find me",
        "matches": 1,
        "shown": ["pkg/small.py:1: def g(): ...  # Find Me"],
    }
    with pytest.raises(ValueError, match="give a text"):
        tools.search_text(" ")


def test_the_largest_modules_leave_tests_out(tools: ModuleType) -> None:
    assert tools.largest_modules() == [
        {"path": "pkg/big.py", "lines": 7},
        {"path": "pkg/small.py", "lines": 1},
    ]


def test_a_module_is_outlined_by_its_syntax_tree(tools: ModuleType) -> None:
    assert tools.outline_module("pkg/big.py") == {
        "path": "pkg/big.py",
        "purpose": "Does it.",
        "classes": {"A": ["x", "y"]},
        "functions": ["f"],
    }


@pytest.mark.parametrize("path", ["../outside.py", "/etc/passwd", "README.md", "pkg/none.py"])
def test_only_python_files_of_the_checkout_are_outlined(tools: ModuleType, path: str) -> None:
    with pytest.raises(ValueError, match="no Python file of the checkout"):
        tools.outline_module(path)
