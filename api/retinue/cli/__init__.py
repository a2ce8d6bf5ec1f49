"""The `retinue` command: start workers, launch subagents, watch and control them.

Only the command that runs is imported in full, so that `retinue --help` answers at once.
"""

from __future__ import annotations

from retinue.cli.exits import ExitCode

__all__ = ["ExitCode", "main"]


def main() -> None:
    """Runs the command line of this process and exits with an `ExitCode`."""
    from retinue.cli.app import run

    run()
