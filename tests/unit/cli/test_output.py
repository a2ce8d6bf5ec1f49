from __future__ import annotations

import io
import json

import pytest
import typer

from retinue.cli.exits import ExitCode
from retinue.cli.output import document, put, reporting, table, visible
from retinue.contract import ErrorCode, SettingsError, StoreUnavailableError, SubagentLifecycleError


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", "\\x1b[2J"),
        ("a\rb", "a\\x0db"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202eabc", "\\u202eabc"),
        ("a\u2028b", "a\\u2028b"),
        ("\ud800", "\\ud800"),
        ("\x7f\x00", "\\x7f\\x00"),
    ],
)
def test_what_could_act_on_a_terminal_is_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize("text", ["two\nlines\tand a tab", "Grüße 東京", "👩\u200d💻", ""])
def test_plain_text_is_left_alone(text: str) -> None:
    assert visible(text) == text


def test_a_stream_of_a_narrow_encoding_gets_replacements() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    put(stream, "Grüße")

    assert raw.getvalue() == b"Gr??e\n"


def test_a_document_survives_what_has_no_utf8_form(capsys: pytest.CaptureFixture[str]) -> None:
    document({"text": "\ud800\x1b"})

    written = capsys.readouterr().out
    assert json.loads(written) == {"text": "\ud800\x1b"}
    assert "\x1b" not in written


def test_a_cell_of_a_table_cannot_break_its_row(capsys: pytest.CaptureFixture[str]) -> None:
    table(["A", "B"], [["x\ny\x1b", "z"]])

    assert capsys.readouterr().out == "A        B\nx y\\x1b  z\n"


def test_an_error_becomes_its_text_and_its_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as left, reporting():
        raise SettingsError("it is missing", setting="store_url", mend="set it")

    assert left.value.exit_code == ExitCode.PROBLEM
    assert capsys.readouterr().err == "retinue: store_url: it is missing. To mend: set it.\n"


def test_an_error_becomes_json_with_its_fields(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as left, reporting(as_json=True):
        raise SubagentLifecycleError(
            "no agent is named 'x'",
            field="agent",
            limit="a, b",
            mend="name one",
            code=ErrorCode.UNKNOWN_AGENT,
        )

    written = capsys.readouterr()
    assert left.value.exit_code == ExitCode.PROBLEM
    assert written.err == ""
    assert json.loads(written.out)["error"] == {
        "type": "SubagentLifecycleError",
        "message": "no agent is named 'x'",
        "code": "UNKNOWN_AGENT",
        "field": "agent",
        "limit": "a, b",
        "mend": "name one",
    }


def test_a_silent_store_has_its_exit_code() -> None:
    with pytest.raises(typer.Exit) as left, reporting():
        raise StoreUnavailableError("nobody there")

    assert left.value.exit_code == ExitCode.STORE_UNAVAILABLE


def test_an_error_that_is_a_fault_of_ours_is_not_hidden() -> None:
    with pytest.raises(KeyError), reporting():
        raise KeyError("x")
