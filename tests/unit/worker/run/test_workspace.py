"""Where a run may work on files."""

from __future__ import annotations

from pathlib import Path

import pytest

from retinue.contract import SettingsError
from retinue.worker.run.workspace import open_workspace


def test_a_run_without_a_directory_works_nowhere_in_particular(tmp_path: Path) -> None:
    assert open_workspace(tmp_path, None) is None
    assert open_workspace(None, None) is None


def test_the_directory_is_made_below_the_root(tmp_path: Path) -> None:
    directory = open_workspace(tmp_path, "jobs/a")

    assert directory == tmp_path / "jobs" / "a"
    assert (tmp_path / "jobs" / "a").is_dir()


def test_a_worker_without_a_root_refuses_and_names_the_setting() -> None:
    with pytest.raises(SettingsError, match="workspace_root"):
        open_workspace(None, "jobs")


def test_a_link_that_leads_out_of_the_workspace_is_refused(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "jobs").symlink_to(outside)

    with pytest.raises(SettingsError, match="leads out"):
        open_workspace(root, "jobs/a")
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(
    ("relative", "reason"),
    [
        ("a" * 300, "too long"),
        ("file/jobs", "Not a directory"),
        ("file", "File exists"),
        ("loop/jobs", "symbolic links|RuntimeError"),
        ("a\0b", "ValueError"),
    ],
)
def test_a_directory_that_cannot_be_made_is_refused_with_the_reason_and_the_mend(
    tmp_path: Path, relative: str, reason: str
) -> None:
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "loop").symlink_to("loop")

    with pytest.raises(SettingsError, match=reason) as caught:
        open_workspace(tmp_path, relative)
    assert caught.value.mend
    assert len(str(caught.value)) < 400
