"""uv.lock is in step with pyproject.toml, checked without asking a registry."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[3]


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / name).read_text())


def _declared(requirements: list[str]) -> set[tuple[str, str, str]]:
    parsed = [Requirement(text) for text in requirements]
    return {(each.name, ",".join(sorted(each.extras)), str(each.specifier)) for each in parsed}


def _locked(entries: list[dict[str, Any]]) -> set[tuple[str, str, str]]:
    return {
        (entry["name"], ",".join(sorted(entry.get("extras", ()))), str(Requirement(_line(entry)).specifier))
        for entry in entries
    }


def _line(entry: dict[str, Any]) -> str:
    return entry["name"] + entry.get("specifier", "")


def _locked_project() -> dict[str, Any]:
    return next(package for package in _read("uv.lock")["package"] if package["name"] == "retinue")


def test_the_lock_file_has_the_projects_dependencies() -> None:
    project = _read("pyproject.toml")["project"]
    declared = [*project["dependencies"]]
    for extra in project["optional-dependencies"].values():
        declared += extra

    assert _locked(_locked_project()["metadata"]["requires-dist"]) == _declared(declared), "run: uv lock"


def test_the_lock_file_has_the_developers_tools() -> None:
    declared = _read("pyproject.toml")["dependency-groups"]["dev"]

    assert _locked(_locked_project()["metadata"]["requires-dev"]["dev"]) == _declared(declared), (
        "run: uv lock"
    )


def test_the_lock_file_has_the_projects_version() -> None:
    assert _locked_project()["version"] == _read("pyproject.toml")["project"]["version"]
