"""Where a run may work on files: its own directory below the operator's workspace root."""

from __future__ import annotations

from pathlib import Path

from retinue.contract import SettingsError

_SHOWN_CHARS = 100


def open_workspace(root: Path | None, relative: str | None) -> Path | None:
    """The run's directory, made if it is not there; None = the launch asked for none.

    Args:
        root: The setting `workspace_root` of this process.
        relative: As the launch asks.

    Raises:
        SettingsError: This worker has no workspace root, a link on the way leads out of it, or the directory
            cannot be made.
    """
    if relative is None:
        return None
    if root is None:
        raise SettingsError(
            "this worker has no workspace for the run's working_directory",
            setting="workspace_root",
            mend="set it to the directory that holds all of them",
        )
    try:
        # Links are followed first: one inside the workspace must not lead out of it.
        directory = (root / relative).resolve()
        if not directory.is_relative_to(root.resolve()):
            raise SettingsError(
                f"the working_directory {_shown(relative)} leads out of the workspace",
                setting="workspace_root",
                mend="remove the symbolic link on its way",
            )
        directory.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError, ValueError) as fault:
        # A name that is too long, a file on the way, no right to write, a loop of links.
        reason = fault.strerror if isinstance(fault, OSError) and fault.strerror else type(fault).__name__
        raise SettingsError(
            f"the working_directory {_shown(relative)} cannot be made: {reason}",
            setting="workspace_root",
            mend="see that this worker may make it there, or launch with another working_directory",
        ) from fault
    return directory


def _shown(relative: str) -> str:
    return repr(relative if len(relative) <= _SHOWN_CHARS else relative[:_SHOWN_CHARS] + "...")
