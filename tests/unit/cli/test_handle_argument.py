from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import typer

from retinue.cli.handle_argument import read_handle

RUN_ID = "sa-p00-" + "a" * 26
FIELDS = {"subagent_id": RUN_ID, "contract_version": 1}


def test_a_handle_is_read_from_json() -> None:
    assert read_handle(json.dumps(FIELDS)) == FIELDS


def test_a_handle_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "handle.json"
    file.write_text(json.dumps(FIELDS) + "\n")

    assert read_handle(f"@{file}") == FIELDS


def test_a_handle_is_read_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(FIELDS)))

    assert read_handle("-") == FIELDS


def test_a_document_with_a_handle_in_it_will_do() -> None:
    assert read_handle(json.dumps({"handle": FIELDS, "state": "RUNNING"})) == FIELDS


def test_a_bare_run_id_is_taken_as_it_is() -> None:
    assert read_handle(f" {RUN_ID}\n") == RUN_ID


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("", "run's id"),
        ("two words", "run's id"),
        ("handle.jsn", "@/path"),
        ("sa-p00-x", "run's id"),
        ("{", "no JSON"),
        ("@/nowhere/at/all", "/nowhere/at/all cannot be read: No such file"),
    ],
)
def test_what_is_no_handle_is_refused_with_a_reason(argument: str, said: str) -> None:
    with pytest.raises(typer.BadParameter, match=said):
        read_handle(argument)


def test_a_files_path_without_its_sign_is_told_how_to_write_it(tmp_path: Path) -> None:
    file = tmp_path / "handle.json"
    file.write_text(json.dumps(FIELDS))
    with pytest.raises(typer.BadParameter, match=f"to read the file write @{file}"):
        read_handle(str(file))
