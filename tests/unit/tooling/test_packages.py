"""The shape of the namespace: three source roots, no package of their own at the top."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCE_ROOTS = ("broker_config", "workers", "api")
PACKAGES = sorted(
    front_door.parent for root in SOURCE_ROOTS for front_door in (ROOT / root).glob("retinue/*/__init__.py")
)
ROOMS = sorted({module.parent for package in PACKAGES for module in package.glob("*/**/*.py")})
each_package = pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)


def test_the_three_source_roots_hold_packages() -> None:
    found = {package.parent.parent.name for package in PACKAGES}

    assert found == set(SOURCE_ROOTS)


@pytest.mark.parametrize("root", SOURCE_ROOTS)
def test_the_namespace_itself_is_no_package(root: str) -> None:
    # With one, the other two roots could not be imported.
    assert not (ROOT / root / "retinue" / "__init__.py").exists()


def test_every_folder_of_the_namespace_is_a_package() -> None:
    folders = {
        folder
        for root in SOURCE_ROOTS
        for folder in (ROOT / root / "retinue").iterdir()
        if folder.is_dir() and folder.name != "__pycache__"
    }

    assert folders == set(PACKAGES)


def test_no_package_name_stands_in_two_roots() -> None:
    names = [package.name for package in PACKAGES]

    assert len(set(names)) == len(names)


@each_package
def test_a_package_is_typed_for_its_users(package: Path) -> None:
    assert (package / "py.typed").is_file()


@each_package
def test_a_package_says_what_it_is(package: Path) -> None:
    docstring = ast.get_docstring(_front_door(package))

    assert docstring, f"{package}/__init__.py needs a docstring"


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: f"{room.parent.name}/{room.name}")
def test_a_folder_within_a_package_says_what_it_is(room: Path) -> None:
    assert (room / "__init__.py").is_file()
    assert ast.get_docstring(_front_door(room))


@each_package
def test_a_package_lists_its_public_names_once_each(package: Path) -> None:
    # Their order is ruff's rule RUF022; a package that only Celery enters may list none.
    names = _public_names(package)

    assert len(set(names)) == len(names)


def _front_door(package: Path) -> ast.Module:
    return ast.parse((package / "__init__.py").read_text())


def _public_names(package: Path) -> list[str]:
    for statement in _front_door(package).body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List() as names)
                | ast.AnnAssign(target=ast.Name(id="__all__"), value=ast.List() as names)
            ):
                return ast.literal_eval(names)
            case _:
                pass
    raise AssertionError(f"{package}/__init__.py needs __all__")
