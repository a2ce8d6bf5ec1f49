"""JSON as it travels: compact, always encodable, never with constants that JSON does not have."""

import json
from typing import cast

JsonObject = dict[str, object]


def dump_json(value: object) -> str:
    """Compact JSON text that can be encoded as UTF-8.

    Raises:
        ValueError: The value holds a number that JSON cannot express (infinity, NaN).
    """
    return mend_surrogates(json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False))


def load_object(text: str | bytes) -> JsonObject | None:
    """The JSON object in `text`; None if it is anything else, or not JSON."""
    try:
        value: object = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None
    return as_object(value)


def as_object(value: object) -> JsonObject | None:
    """`value` if it is a JSON object, else None."""
    return cast(JsonObject, value) if isinstance(value, dict) else None


def objects_of(value: object) -> list[JsonObject]:
    """The JSON objects in a JSON array; none if it is no array."""
    if not isinstance(value, list):
        return []
    return [cast(JsonObject, item) for item in cast(list[object], value) if isinstance(item, dict)]


def text_of(value: object) -> str:
    """`value` if it is a text, else ""."""
    return value if isinstance(value, str) else ""


def count_of(value: object) -> int:
    """`value` if it is a count, else 0 (servers write null and floats)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if 0 <= value < 2**53 else 0


def mend_surrogates(text: str) -> str:
    """`text` with surrogate pairs joined and lone surrogates replaced.

    A stream may cut an escaped character in two (`\\ud83d` in one delta, `\\ude00` in the next), and models
    write lone halves; neither can be encoded.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
