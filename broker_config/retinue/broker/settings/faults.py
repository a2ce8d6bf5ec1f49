"""Wrong settings, said so that the reader can mend them and no value is repeated."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast, get_args

from pydantic import BaseModel, ValidationError

from retinue.contract.errors import SettingsError


def first_fault(error: ValidationError, root: type[BaseModel], file: Path) -> SettingsError:
    """The fault to mend first, as an error that names the setting, where it stands and the mend.

    An unknown name comes before all others: whoever misspelt a setting would else be told that it is missing.

    Args:
        error: what validation of `root` raised; its inputs are not read, they may be secrets.
        root: the settings class, whose field names are offered for an unknown one.
        file: the settings file; it need not exist.
    """
    faults = error.errors(include_input=False, include_url=False)
    fault = next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0])
    place = [str(part) for part in fault["loc"]]
    setting = ".".join(place) or None
    origin = _origin(place, file)
    if fault["type"] == "extra_forbidden":
        return SettingsError(
            "there is no such setting", setting=setting, mend=_mend_unknown(place, root, origin)
        )
    variable = f"RETINUE_{'__'.join(place).upper()}"
    mend = f"correct it in {_both(origin, variable)}" if place else None
    if fault["type"] == "missing":
        mend = f"set {variable}, or set it in {file if file.is_file() else 'the settings file'}"
        return SettingsError("it has no default and is not set", setting=setting, mend=mend)
    message = fault["msg"].removeprefix("Value error, ")
    return SettingsError(message[:1].lower() + message[1:], setting=setting, mend=mend)


def fault_of_file(error: Exception, file: Path) -> SettingsError:
    """A source that cannot be read: broken TOML, no permission, or a variable that should hold JSON."""
    if isinstance(error, tomllib.TOMLDecodeError):
        # The decoder's text names line and column, never the content.
        return SettingsError(f"not valid TOML: {error}", setting=str(file), mend="correct that line")
    if isinstance(error, OSError):
        mend = "let this user read it, or name another file in RETINUE_CONFIG"
        return SettingsError(f"cannot be read: {error.strerror}", setting=str(file), mend=mend)
    # pydantic-settings names the field here; the value is in the error's cause, which is left behind.
    field = re.search(r'field "(\w+)"', str(error))
    return SettingsError(
        "cannot be read from the environment",
        setting=field[1] if field else None,
        mend="write a mapping or a list of sections as JSON",
    )


def misspelt_variables(environment: Mapping[str, str], root: type[BaseModel]) -> dict[str, str]:
    """Variables that look like a setting and are none, which pydantic-settings passes over in silence.

    Returns:
        The name that was probably meant, by the name that is there. Variables of other programs that share
        the prefix and look like no setting are left out.
    """
    known = [f"RETINUE_{name.upper()}" for name in root.model_fields]
    found: dict[str, str] = {}
    for name in environment:
        plain = name.upper().partition("__")[0]
        if plain.startswith("RETINUE_") and plain not in known:
            near = difflib.get_close_matches(plain, known, n=1, cutoff=0.9)
            if near:
                found[name] = near[0]
    return found


def _both(origin: str | None, variable: str) -> str:
    if origin is None:
        return f"{variable} or in the settings file"
    return origin if origin.upper() == variable else f"{origin}, or set {variable}, which wins over it"


def _origin(place: list[str], file: Path) -> str | None:
    """The variable or the file that a setting was read from; None where it came in another way."""
    variable = f"RETINUE_{'__'.join(place).upper()}"
    found = next((name for name in os.environ if name.upper() == variable), None)
    if found is not None or not place or not file.is_file():
        return found
    level: Any = tomllib.loads(file.read_text(encoding="utf-8"))  # it was read a moment ago, so it is sound
    for part in place:
        if isinstance(level, list) and part.isdecimal() and int(part) < len(cast("list[Any]", level)):
            level = level[int(part)]
        elif isinstance(level, Mapping) and part in level:
            level = level[part]
        else:
            return None
    return str(file)


def _mend_unknown(place: list[str], root: type[BaseModel], origin: str | None) -> str:
    known: Any = root
    for part in place[:-1]:
        if _is_model(known):
            field = known.model_fields.get(part)
            known = field.annotation if field is not None else None
        else:
            # A mapping or a list of models: `part` is the key or the index of one of them.
            known = next((argument for argument in get_args(known) if _is_model(argument)), None)
    names = sorted(known.model_fields) if _is_model(known) else []
    near = difflib.get_close_matches(place[-1], names, n=3)
    there = f" in {origin}" if origin else ""
    if near:
        return f"rename it to {' or '.join(near)}{there}, or remove it"
    return f"remove it{there}; known are {', '.join(names)}" if names else f"remove it{there}"


def _is_model(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, BaseModel)
