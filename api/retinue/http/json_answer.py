"""JSON as the API writes it: what the contract's to_dict() gave, whatever a model put into a payload."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, cast

from starlette.responses import JSONResponse


class JsonAnswer(JSONResponse):
    """An answer in UTF-8 that any JSON reader takes.

    A model's text may hold half a surrogate pair, which has no UTF-8 form and is escaped, and its payload
    NaN or an infinity, which JSON does not have: they become null.
    """

    def render(self, content: Any) -> bytes:
        """The body's bytes."""
        try:
            return _written(content, ascii_only=False).encode()
        except ValueError:  # also what encode() raises
            return _written(_finite(content), ascii_only=True).encode()


def _written(content: object, *, ascii_only: bool) -> str:
    return json.dumps(content, ensure_ascii=ascii_only, allow_nan=False, separators=(",", ":"))


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in cast("list[object] | tuple[object, ...]", value)]
    return value
