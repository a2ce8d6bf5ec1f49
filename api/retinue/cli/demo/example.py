"""Finds the example that `retinue demo` runs; it comes with a checkout of the project, not with a wheel."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from retinue.contract import RetinueError

EXAMPLE: Final = Path("examples") / "checkout_review"
SPEC_FILE: Final = "team.yaml"
_PARTS: Final = ("agents.py", "tools.py", "script.py")


class ExampleMissingError(RetinueError):
    """There is no example to run.

    Args:
        message: where it was looked for.
        mend: what to do about it.
    """

    def __init__(self, message: str, *, mend: str | None = None) -> None:
        super().__init__(message)
        self.mend = mend


@dataclass(frozen=True, slots=True)
class Example:
    """A folder with a team's Agent Spec file, its tools, and its scripted model.

    Args:
        spec: the file; `agents.py`, `tools.py` and `script.py` stand beside it.
    """

    spec: Path

    @property
    def folder(self) -> Path:
        """Where its modules are."""
        return self.spec.parent

    @property
    def package(self) -> str:
        """The name under which workers import its modules."""
        return self.folder.name

    @property
    def checkout(self) -> Path:
        """The project that the example belongs to: what it reviews unless told otherwise."""
        return next(
            (each for each in self.folder.parents if (each / "pyproject.toml").is_file()), self.folder
        )


def find_example(spec: Path | None) -> Example:
    """The example of this file; None = that of the checkout around the working directory or this code.

    Raises:
        ExampleMissingError: it is not there, or parts of it are missing.
    """
    if spec is not None:
        return _complete(spec.resolve())
    here = Path.cwd()
    source = Path(__file__).resolve()
    for folder in (here, *here.parents, *source.parents):
        candidate = folder / EXAMPLE / SPEC_FILE
        if candidate.is_file():
            return _complete(candidate)
    raise ExampleMissingError(
        f"there is no {EXAMPLE} in or above {here}, nor beside the installed code",
        mend="run it in a checkout of the project (make demo), or name the file with --spec",
    )


def _complete(spec: Path) -> Example:
    missing = [name for name in _PARTS if not (spec.parent / name).is_file()]
    if not spec.is_file() or missing:
        what = ", ".join(missing) if spec.is_file() else spec.name
        raise ExampleMissingError(
            f"{spec.parent} lacks {what}", mend=f"name a complete copy of {EXAMPLE} with --spec"
        )
    return Example(spec)
