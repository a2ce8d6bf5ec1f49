"""Where the settings' file is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from retinue.contract.errors import SettingsError

CONFIG_FILE: Final = "retinue.toml"
"""Read from the working directory, unless RETINUE_CONFIG names another file."""


def config_file() -> Path:
    """The file that settings are read from; it need not exist, unless RETINUE_CONFIG names it.

    Raises:
        SettingsError: RETINUE_CONFIG names a file that is not there.
    """
    named = os.environ.get("RETINUE_CONFIG", "")
    if named and not Path(named).is_file():
        raise SettingsError(
            f"there is no file {named}",
            setting="RETINUE_CONFIG",
            mend=f"name a file that exists, or unset it to read {CONFIG_FILE} in the working directory",
        )
    return Path(named or CONFIG_FILE)
