from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from flower.options import options

from retinue.broker.settings import Settings
from retinue.cli.commands.flower import flower_options, log_in, require_broker
from retinue.contract import SettingsError, StoreUnavailableError

STORE = "redis://localhost:1/0"


@pytest.fixture(autouse=True)
def _fresh_flower_options() -> Iterator[None]:
    before: Any = options.basic_auth
    options.basic_auth = []
    yield
    options.basic_auth = before


def test_flower_only_reads_and_listens_here_unless_told_otherwise() -> None:
    settings = Settings.read(store_url=STORE, flower_port=7777)

    assert flower_options(settings, None, "127.0.0.1", control=False) == [
        "--port=7777",
        "--address=127.0.0.1",
        "--read_only",
    ]
    assert flower_options(settings, 8888, "0.0.0.0", control=True) == ["--port=8888", "--address=0.0.0.0"]


def test_the_log_in_of_the_settings_is_asked_for_and_never_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log_in(Settings.read(store_url=STORE, flower_user="ops", flower_password="a,b:c"), [])

    assert options.basic_auth == ["ops:a,b:c"]
    assert capsys.readouterr() == ("", "")


def test_without_one_a_password_is_made_and_printed_once_on_standard_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = Settings.read(store_url=STORE)
    log_in(settings, [])
    (first,) = options.basic_auth
    said = capsys.readouterr()
    log_in(settings, [])

    user, password = first.split(":")
    assert user == "retinue"
    assert len(password) >= 20
    assert said.err.count(password) == 1
    assert said.out == ""
    assert options.basic_auth != [first]


@pytest.mark.parametrize("given", ["--basic_auth=me:secret", "--basic-auth=me:secret", "--auth=.*@x.org"])
def test_a_log_in_among_flowers_own_options_is_left_alone(
    given: str, capsys: pytest.CaptureFixture[str]
) -> None:
    log_in(Settings.read(store_url=STORE), [given])

    assert options.basic_auth == []
    assert capsys.readouterr().err == ""


def test_a_log_in_in_flowers_own_variable_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWER_BASIC_AUTH", "me:secret")
    log_in(Settings.read(store_url=STORE), [])

    assert options.basic_auth == []


def test_it_does_not_start_without_its_broker(unused_port: int) -> None:
    nobody = f"redis://127.0.0.1:{unused_port}/0"
    with pytest.raises(SettingsError):
        require_broker(Settings.read())
    for settings in (
        Settings.read(store_url=nobody),
        Settings.read(store_url="redis://127.0.0.1:2/0", broker_url=nobody),
    ):
        with pytest.raises(StoreUnavailableError, match=f"no server answers at {nobody}.*To mend: "):
            require_broker(settings)
    # RabbitMQ and others are reached, and checked, by kombu alone.
    require_broker(Settings.read(store_url=nobody, broker_url=f"amqp://127.0.0.1:{unused_port}//"))


@pytest.fixture
def unused_port() -> Iterator[int]:
    """One on which nobody listens; kept bound, so that nobody begins to."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
