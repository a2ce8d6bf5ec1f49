"""`retinue web`: the HTTP API and its page."""

from __future__ import annotations

import importlib.util
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from retinue.cli.output import reporting, say

if TYPE_CHECKING:
    from retinue.http.entrance import Entrance

PACKAGES: Final = ("fastapi", "httptools", "uvicorn", "uvloop")
MEND: Final = "pip install 'retinue[api]'"
_LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"


def web(
    host: Annotated[
        str | None, typer.Option(help="Address to listen on; None = RETINUE_HTTP__HOST or 127.0.0.1.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="0 = any free one; None = RETINUE_HTTP__PORT or 8580."),
    ] = None,
    loglevel: Annotated[str, typer.Option("--loglevel", "-l", help="Of its log.")] = "INFO",
) -> None:
    """Start the HTTP API and its page, until Ctrl-C.

    At its first start it makes an API key for this machine's user and prints it once. To listen on an
    address that others reach, make a key with `retinue keys create` first.
    """
    with reporting():
        require_extra()
        from retinue.broker.settings import load_settings
        from retinue.http.server import run_server

        settings = load_settings()
        settings.required_store_url  # noqa: B018 - raises what is missing before anything is logged
        _log_to_standard_error(loglevel)
        run_server(settings, host, port, on_listening=_announce)


def require_extra() -> None:
    """Refuses to go on without the packages of the extra `api`.

    Raises:
        SettingsError: One is missing; names it and the mend.
    """
    from retinue.contract import SettingsError

    missing = missing_packages()
    if missing:
        raise SettingsError(f"the HTTP API needs {what_is_missing(missing)}", mend=MEND)


def missing_packages() -> tuple[str, ...]:
    """Those of the extra that are not installed; nothing is imported to find out."""
    return tuple(name for name in PACKAGES if importlib.util.find_spec(name) is None)


def what_is_missing(missing: Sequence[str]) -> str:
    """The end of a sentence: "fastapi, uvicorn, which are not installed"."""
    return f"{', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed"


def _announce(url: str, entrance: Entrance) -> None:
    if entrance.first_key is not None:
        # A browser keeps what stands after the # to itself.
        say(f"listening on {url}; open {url}/#key={entrance.first_key}")
        say(f"this key is shown only now, and kept in {entrance.key_file}")
    elif entrance.key_file is not None:
        say(f"listening on {url}; its key is in {entrance.key_file}")
    else:
        say(f"listening on {url}")


def _log_to_standard_error(level: str) -> None:
    if level.upper() not in logging.getLevelNamesMapping():
        raise typer.BadParameter(
            f"{level} is no level: DEBUG, INFO, WARNING or ERROR", param_hint="--loglevel"
        )
    logging.basicConfig(format=_LOG_FORMAT, level=level.upper(), stream=sys.stderr)
    # Its news is told by our own lines.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
