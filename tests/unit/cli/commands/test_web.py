from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from retinue.cli.app import run
from retinue.cli.commands import web
from retinue.cli.commands.web import what_is_missing
from retinue.cli.exits import ExitCode
from retinue.cli.up.up import web_command as command_of_up
from retinue.http.entrance import Entrance

URL = "http://127.0.0.1:8580"


@pytest.fixture(autouse=True)
def _same_logging_afterwards() -> Iterator[None]:
    root, uvicorn = logging.getLogger(), logging.getLogger("uvicorn")
    before = (root.handlers[:], root.level, uvicorn.level)
    yield
    root.handlers[:], root.level, uvicorn.level = before


@pytest.mark.parametrize(
    ("entrance", "lines"),
    [
        (
            Entrance(Path("/state/keys/k"), "rtn_k_secret"),
            [
                f"listening on {URL}; open {URL}/#key=rtn_k_secret",
                "this key is shown only now, and kept in /state/keys/k",
            ],
        ),
        (Entrance(Path("/state/keys/k")), [f"listening on {URL}; its key is in /state/keys/k"]),
        (Entrance(), [f"listening on {URL}"]),
    ],
)
def test_it_says_where_it_is_and_how_to_come_in(
    entrance: Entrance, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    web._announce(URL, entrance)

    assert capsys.readouterr().out.splitlines() == lines


def test_an_unknown_log_level_is_wrong_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RETINUE_STORE_URL", "redis://127.0.0.1:1/0")

    with pytest.raises(SystemExit) as left:
        run(["web", "--loglevel", "LOUD"])

    assert left.value.code == ExitCode.USAGE
    assert "LOUD is no level" in capsys.readouterr().err


def test_what_is_missing_is_one_phrase() -> None:
    assert what_is_missing(["uvicorn"]) == "uvicorn, which is not installed"
    assert what_is_missing(["fastapi", "uvicorn"]) == "fastapi, uvicorn, which are not installed"


def test_retinue_up_starts_it_on_the_port_of_the_settings_unless_told_otherwise() -> None:
    assert command_of_up(None, loglevel="INFO")[1:] == ["-m", "retinue.cli", "web", "--loglevel", "INFO"]
    assert command_of_up(9000, loglevel="INFO")[-2:] == ["--port", "9000"]
