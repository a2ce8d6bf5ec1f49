"""`retinue flower`: the Flower web page for Retinue's workers, closed to strangers unless told otherwise."""

from __future__ import annotations

import importlib.util
import os
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from retinue.cli.commands.worker import run_celery
from retinue.cli.output import note
from retinue.contract import SettingsError

if TYPE_CHECKING:
    from retinue.broker.settings import Settings

CELERY_APP: Final = "retinue.cli.flower_app:app"
GENERATED_USER: Final = "retinue"
_LOGINS: Final = ("basic_auth", "auth")


def run_flower(
    options: Sequence[str], *, settings: Settings, port: int | None, address: str, control: bool
) -> None:
    """Becomes Flower; it does not return.

    Args:
        options: further options of Flower, which win over what is set here.
        settings: with the broker, and the log-in if there is one.
        port: None = the setting flower_port.
        address: to listen on.
        control: whether its pages may change anything.

    Raises:
        SettingsError: Flower is not installed, or there is no broker, or it cannot be used.
        StoreUnavailableError: the broker is a Redis or a Valkey that does not answer.
    """
    if importlib.util.find_spec("flower") is None:
        raise SettingsError("Flower is not installed", mend="pip install 'retinue[flower]'")
    require_broker(settings)
    log_in(settings, options)
    run_celery(["-A", CELERY_APP, "flower", *flower_options(settings, port, address, control), *options])


def require_broker(settings: Settings) -> None:
    """Refuse to start without a broker: Flower itself would go on and show a page that stays empty.

    Raises:
        RetinueError: no broker is set, or the Redis or Valkey that is set cannot be used.
    """
    from retinue.broker.addresses import for_links
    from retinue.broker.server.checks import require_server

    address = settings.broker_address
    if address is not None:  # another kind of broker has checks of its own, in kombu
        setting = "store_url" if settings.broker_url is None else "broker_url"
        require_server(for_links(address), setting=setting)


def flower_options(settings: Settings, port: int | None, address: str, control: bool) -> list[str]:
    """Flower's options as Retinue sets them; the log-in is not among them, for they can be seen."""
    chosen = [f"--port={settings.flower_port if port is None else port}", f"--address={address}"]
    return chosen if control else [*chosen, "--read_only"]


def log_in(settings: Settings, options: Sequence[str]) -> None:
    """Sees to it that Flower asks for a log-in: the one that is set, or a fresh one, printed once."""
    if _has_own_login(options):
        return
    user, password = settings.flower_user, settings.flower_password
    if user is not None and password is not None:
        _set_login(user, password.get_secret_value())
        return
    generated = secrets.token_urlsafe(18)
    note(f"Flower log-in, for this start only: user {GENERATED_USER}, password {generated}")
    note("to keep one, set RETINUE_FLOWER_USER and RETINUE_FLOWER_PASSWORD")
    _set_login(GENERATED_USER, generated)


def _set_login(user: str, password: str) -> None:
    # Past Flower's command line, which others may see, and its FLOWER_BASIC_AUTH, which splits at commas.
    from flower.options import options

    options.basic_auth = [f"{user}:{password}"]


def _has_own_login(options: Sequence[str]) -> bool:
    given = {word.lstrip("-").partition("=")[0].replace("-", "_") for word in options}
    return any(name in given or os.environ.get(f"FLOWER_{name.upper()}") for name in _LOGINS)
