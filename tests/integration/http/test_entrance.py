"""The first key of a store, and who must not be let in."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from retinue.broker.settings import Settings
from retinue.client.dispatch.connections import connections_for
from retinue.contract import SettingsError
from retinue.http.entrance import prepare_entrance
from retinue.store.operations.admission import admit_key
from retinue.store.operations.api_keys import Scope, ShownKey, create_key, list_keys, revoke_key
from retinue.testing.servers import PrivateServer


@pytest.fixture
def settings(
    valkey_server: PrivateServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Settings]:
    valkey_server.flush()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    settings = Settings.read(store_url=valkey_server.url)
    yield settings
    connections_for(settings).close()


def test_the_first_start_makes_a_key_of_all_scopes_that_its_user_alone_can_read(settings: Settings) -> None:
    entrance = prepare_entrance(settings, is_local=True)

    assert entrance.first_key is not None
    assert entrance.key_file is not None
    admitted = connections_for(settings).store.run(
        admit_key(ShownKey.of(entrance.first_key), requests_per_minute=0)
    )
    assert admitted is not None
    assert (admitted.key.tenant, admitted.key.scopes) == ("_", frozenset(Scope))
    assert entrance.key_file.read_text().strip() == entrance.first_key
    assert stat.S_IMODE(entrance.key_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(entrance.key_file.parent.stat().st_mode) == 0o700
    assert entrance.first_key not in repr(entrance)


def test_a_later_start_tells_where_it_is_and_makes_none(settings: Settings) -> None:
    first = prepare_entrance(settings, is_local=True)

    later = prepare_entrance(settings, is_local=True)

    assert (later.key_file, later.first_key) == (first.key_file, None)
    assert len(connections_for(settings).store.run(list_keys())) == 1


def test_where_keys_were_made_by_hand_there_is_no_first(settings: Settings) -> None:
    create_key(connections_for(settings).store, name="mine")

    entrance = prepare_entrance(settings, is_local=True)

    assert (entrance.key_file, entrance.first_key) == (None, None)


def test_each_store_keeps_its_own_first_key(settings: Settings) -> None:
    first = prepare_entrance(settings, is_local=True)
    with PrivateServer("valkey") as server:
        other = Settings.read(store_url=server.url)

        elsewhere = prepare_entrance(other, is_local=True)

        assert elsewhere.first_key not in (None, first.first_key)
        assert prepare_entrance(settings, is_local=True).key_file == first.key_file
        assert prepare_entrance(other, is_local=True).key_file == elsewhere.key_file


def test_others_are_not_let_in_without_any_key(settings: Settings) -> None:
    with pytest.raises(SettingsError, match=r"http\.host.*no API key.*retinue keys create") as refused:
        prepare_entrance(settings, is_local=False)

    assert refused.value.setting == "http.host"
    assert connections_for(settings).store.run(list_keys()) == []


def test_a_revoked_key_keeps_nobody_out(settings: Settings) -> None:
    issued = create_key(connections_for(settings).store, name="old")
    connections_for(settings).store.run(revoke_key(issued.key.key_id))

    with pytest.raises(SettingsError):
        prepare_entrance(settings, is_local=False)


def test_with_a_key_others_are_let_in(settings: Settings) -> None:
    create_key(connections_for(settings).store, name="mine")

    prepare_entrance(settings, is_local=False)


def test_with_tokens_others_are_let_in_and_no_key_is_made(
    settings: Settings, valkey_server: PrivateServer
) -> None:
    jwt = {"issuer": "https://id.example", "audience": "retinue", "keys": "/keys.json"}
    tokens = Settings.read(store_url=valkey_server.url, http={"jwt": jwt})

    assert prepare_entrance(tokens, is_local=False).first_key is None
    assert connections_for(settings).store.run(list_keys()) == []


def test_a_place_that_cannot_be_written_is_named_with_its_mend(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file in the way")

    with pytest.raises(SettingsError, match="XDG_STATE_HOME"):
        prepare_entrance(settings, is_local=True)

    assert connections_for(settings).store.run(list_keys()) == []
