"""The tools of the team: they only read, below the directory that CHECKOUT_ROOT names."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from retinue.agents import tool

FILE_MAX_BYTES = 1_000_000
MATCHES_MAX = 20
MODULES_MAX = 5
_SKIPPED = {"__pycache__", "node_modules", "venv", "dist", "build", "htmlcov"}
_LANGUAGES = {
    ".c": "C",
    ".cfg": "Configuration",
    ".css": "CSS",
    ".go": "Go",
    ".h": "C",
    ".html": "HTML",
    ".ini": "Configuration",
    ".java": "Java",
    ".js": "JavaScript",
    ".json": "JSON",
    ".lua": "Lua",
    ".md": "Markdown",
    ".py": "Python",
    ".rs": "Rust",
    ".sh": "Shell",
    ".toml": "TOML",
    ".ts": "TypeScript",
    ".yaml": "YAML",
    ".yml": "YAML",
}


def root() -> Path:
    """The checkout under review."""
    return Path(os.environ.get("CHECKOUT_ROOT", ".")).resolve()


@tool(toolset="checkout", read_only=True)
def count_files() -> dict[str, Any]:
    """Count the files and lines of the checkout by language."""
    counts: dict[str, dict[str, int]] = {}
    for path, text in _texts():
        entry = counts.setdefault(_LANGUAGES[path.suffix], {"files": 0, "lines": 0})
        entry["files"] += 1
        entry["lines"] += len(text.splitlines())
    languages = dict(sorted(counts.items(), key=lambda item: -item[1]["lines"]))
    return {
        "checkout": root().name,
        "files": sum(entry["files"] for entry in counts.values()),
        "lines": sum(entry["lines"] for entry in counts.values()),
        "languages": languages,
    }


@tool(toolset="checkout", read_only=True)
def search_text(text: str) -> dict[str, Any]:
    """Find lines that contain a text, in any letter case."""
    wanted = text.casefold()
    if not wanted.strip():
        raise ValueError("give a text to search for")
    found = [
        f"{_relative(path)}:{number}: {line.strip()[:200]}"
        for path, content in _texts()
        for number, line in enumerate(content.splitlines(), start=1)
        if wanted in line.casefold()
    ]
    return {"text": text, "matches": len(found), "shown": found[:MATCHES_MAX]}


@tool(toolset="checkout", read_only=True)
def largest_modules() -> list[dict[str, Any]]:
    """List the largest Python modules, tests left out."""
    sizes = [
        (len(text.splitlines()), _relative(path))
        for path, text in _texts()
        if path.suffix == ".py" and not {"test", "tests"} & set(path.relative_to(root()).parts)
    ]
    largest = sorted(sizes, key=lambda item: (-item[0], item[1]))[:MODULES_MAX]
    return [{"path": path, "lines": lines} for lines, path in largest]


@tool(toolset="checkout", read_only=True)
def outline_module(path: str) -> dict[str, Any]:
    """Outline a Python module by its syntax tree, its docstring, classes and functions."""
    file = (root() / path).resolve()
    if not file.is_relative_to(root()) or file.suffix != ".py" or not file.is_file():
        raise ValueError(f"{path} is no Python file of the checkout")
    tree = ast.parse(file.read_text(encoding="utf-8"))
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    classes = {
        node.name: [
            item.name for item in node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }
    purpose = (ast.get_docstring(tree) or "").partition("\n")[0]
    return {"path": path, "purpose": purpose, "classes": classes, "functions": functions}


def _texts() -> Iterator[tuple[Path, str]]:
    """Every file in a known language with its text, in a fixed order."""
    for folder, folders, names in os.walk(root()):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED and not name.startswith("."))
        for name in sorted(names):
            path = Path(folder) / name
            if path.suffix not in _LANGUAGES or path.is_symlink() or path.stat().st_size > FILE_MAX_BYTES:
                continue
            yield path, path.read_text(encoding="utf-8", errors="replace")


def _relative(path: Path) -> str:
    return path.relative_to(root()).as_posix()
