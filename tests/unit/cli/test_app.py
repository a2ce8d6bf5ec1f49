from __future__ import annotations

import json
import subprocess
import sys

import pytest

import retinue.cli
from retinue.cli.app import run
from retinue.cli.exits import ExitCode

HEAVY = (
    "celery",
    "kombu",
    "openai",
    "pydantic",
    "pyagentspec",
    "redis",
    "rich",
    "flower",
    "retinue.client",
    "fastapi",
    "uvicorn",
)


def leave(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        run(arguments)
    return int(left.value.code or 0)


def test_the_public_names_are_pinned() -> None:
    assert retinue.cli.__all__ == ["ExitCode", "main"]


def test_the_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom retinue.cli.app import run\n"
        "try: run(['--help'])\nexcept SystemExit: pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stderr.strip() == "[]"
    assert "Commands:" in done.stdout


@pytest.mark.parametrize(
    "command",
    [
        "up",
        "web",
        "demo",
        "launch",
        "run",
        "ps",
        "status",
        "wait",
        "result",
        "events",
        "steer",
        "pending",
        "approve",
        "deny",
        "answer",
        "cancel",
        "interrupt",
        "purge",
        "doctor",
        "version",
        "worker",
        "flower",
        "workers",
        "keys",
    ],
)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert leave(command, "--help") == ExitCode.OK
    assert f"Usage: retinue {command}" in capsys.readouterr().out


def test_a_wrong_command_line_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert leave("status") == ExitCode.USAGE
    assert "Missing argument 'HANDLE'" in capsys.readouterr().err


def test_a_wrong_command_line_is_json_where_json_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert leave("status", "--json", "two words") == ExitCode.USAGE

    error = json.loads(capsys.readouterr().out)["error"]
    assert error["type"] == "UsageError"
    assert "run's id" in error["message"]


def test_a_missing_store_is_said_with_its_mend(capsys: pytest.CaptureFixture[str]) -> None:
    assert leave("ps") == ExitCode.PROBLEM
    assert "set RETINUE_STORE_URL" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [["ps"], ["workers", "list"], ["keys", "list"], ["status", "sa-p00-" + "a" * 26], ["launch", "a", "g"]],
)
def test_a_silent_store_is_reported_soon(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RETINUE_STORE_URL", "redis://127.0.0.1:1/0")

    assert leave(*command, "--json") == ExitCode.STORE_UNAVAILABLE
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "STORE_UNAVAILABLE"


def test_what_is_no_run_id_by_form_is_refused_without_a_store(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RETINUE_STORE_URL", "redis://127.0.0.1:1/0")

    assert leave("status", "sa-nonsense", "--json") == 2
    assert "to read a file write @/path" in json.loads(capsys.readouterr().out)["error"]["message"]
