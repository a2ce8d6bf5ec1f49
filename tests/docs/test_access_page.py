"""docs/access.md: its settings are settings, and its commands commands."""

from __future__ import annotations

import tomllib

import pytest
from tests.docs.fenced import PROJECT, blocks, commands

from retinue.broker.settings.http import HttpSettings
from retinue.cli.app import run
from retinue.cli.exits import ExitCode
from retinue.store.operations import idempotency
from retinue.store.operations.api_keys import Scope

PAGE = PROJECT / "docs" / "access.md"


def test_the_section_for_tokens_is_what_the_settings_take() -> None:
    (section,) = blocks(PAGE, "toml")
    jwt = HttpSettings.model_validate(tomllib.loads(section)["http"]).jwt
    assert jwt is not None
    assert (jwt.audience, jwt.tenant_claim, jwt.algorithms) == ("retinue", "tenant", ("RS256", "ES256"))


def test_its_commands_make_list_and_revoke_keys(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RETINUE_STORE_URL", valkey_url)
    create, listed, revoke = [words[1:] for words in commands(blocks(PAGE, "")[0])]

    def done(*arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            run(arguments)
        assert ended.value.code in (None, ExitCode.OK)
        return capsys.readouterr().out

    key_id = done(*create).split("_")[1]
    assert key_id in done(*listed)
    assert done(*revoke[:-1], key_id) == f"revoked {key_id}\n"


def test_its_numbers_and_names_are_those_of_the_code() -> None:
    text = PAGE.read_text()
    assert f"{HttpSettings().requests_per_minute:,}" in text
    assert all(f"`{scope}`" in text for scope in Scope)
    assert f"{idempotency.KEPT_MS // 3_600_000} h" in text
