"""`retinue keys` against a real store."""

from __future__ import annotations

import json
from typing import Any

import pytest

from retinue.cli.app import run
from retinue.cli.exits import ExitCode
from retinue.store import keys
from retinue.store.operations.api_keys import ShownKey
from retinue.testing.servers import PrivateServer


class Command:
    """Runs `retinue keys` in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.out = self.err = ""

    def __call__(self, *arguments: str) -> int:
        with pytest.raises(SystemExit) as ended:
            run(["keys", *arguments])
        self.out, self.err = self._capsys.readouterr()
        return int(ended.value.code or 0)

    def json(self, *arguments: str) -> Any:
        assert self(*arguments, "--json") == ExitCode.OK, self.err
        return json.loads(self.out)


@pytest.fixture
def command(valkey_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.setenv("RETINUE_STORE_URL", valkey_url)
    return Command(capsys)


def test_a_key_is_printed_once_and_listed_without_its_secret(
    command: Command, valkey_server: PrivateServer
) -> None:
    assert command("create", "--tenant", "acme", "--name", "shop", "--expires-days", "30") == ExitCode.OK
    text = command.out.strip()
    assert "not shown again" in command.err
    secret, key_id = text.rpartition("_")[2], ShownKey.of(text).key_id
    assert secret not in valkey_server.client(decode_responses=True).hget(keys.API_KEYS, key_id)

    [listed] = command.json("list")["keys"]
    assert (listed["key_id"], listed["tenant"], listed["scopes"]) == (key_id, "acme", ["run:write"])
    assert command("list") == ExitCode.OK
    assert "good for 30d" in command.out
    assert "shop" in command.out
    assert secret not in command.out + command.err


def test_json_of_a_new_key_has_its_text_and_scopes_in_any_number(command: Command) -> None:
    made = command.json("create", "--scope", "run:read", "--scope", "admin")
    assert made["key"].startswith(f"rtn_{made['key_id']}_")
    assert (made["scopes"], made["tenant"], made["expires_at"]) == (["admin", "run:read"], "_", None)


def test_a_revoked_key_is_listed_as_such(command: Command) -> None:
    key_id = command.json("create")["key_id"]
    assert command("revoke", key_id) == ExitCode.OK
    assert command.out == f"revoked {key_id}\n"
    first = command.json("revoke", key_id)["revoked_at"]
    assert command.json("list")["keys"][0]["revoked_at"] == first
    command("list")
    assert "revoked" in command.out


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("create", "--scope", "everything"), "scopes"),
        (("create", "--tenant", "a:b"), "tenant"),
        (("create", "--expires-days", "-1"), "expires_days"),
        (("revoke", "nonsense"), "key_id"),
    ],
)
def test_wrong_values_are_refused_by_name_and_make_nothing(
    command: Command, arguments: tuple[str, ...], field: str
) -> None:
    assert command(*arguments, "--json") == ExitCode.PROBLEM
    assert json.loads(command.out)["error"]["field"] == field
    assert command.json("list") == {"keys": []}


def test_an_unknown_key_cannot_be_revoked(command: Command) -> None:
    assert command("revoke", "a" * 12) == ExitCode.PROBLEM
    assert "retinue keys list" in command.err
    assert command("list") == ExitCode.OK
    assert command.out == "no key\n"
