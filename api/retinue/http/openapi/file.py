"""The OpenAPI document as it stands in the repository; `make openapi` writes it to docs/openapi.json."""

from __future__ import annotations

import json
import sys

from retinue.broker.settings import Settings
from retinue.http.app import create_app


def written() -> str:
    """The document of this version, whatever the settings of this process are."""
    return json.dumps(create_app(Settings.read()).openapi(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(written())
