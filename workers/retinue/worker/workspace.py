"""Where a run may work on files: its own directory below the operator's workspace root."""

from __future__ import annotations

from pathlib import Path

from retinue.contract import SettingsError


def open_workspace(root: Path | None, relative: str | None) -> Path | None:
    """The run's directory, made if it is not there; None = the launch asked for none.

    Args:
        root: The setting `workspace_root` of this process.
        relative: As the launch asks.

    Raises:
        SettingsError: This worker has no workspace root, or a link on the way leads out of it.
    """
    if relative is None:
        return None
    if root is None:
        raise SettingsError(
            "this worker has no workspace for the run's working_directory",
            setting="workspace_root",
            mend="set it to the directory that holds all of them",
        )
    # Links are followed first: one inside the workspace must not lead out of it.
    directory = (root / relative).resolve()
    if not directory.is_relative_to(root.resolve()):
        raise SettingsError(
            f"the working_directory {relative!r} leads out of the workspace",
            setting="workspace_root",
            mend="remove the symbolic link on its way",
        )
    directory.mkdir(parents=True, exist_ok=True)
    return directory
