"""Names of headers, query parameters and variables whose values are credentials, however they are spelt."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_WORDS: Final = frozenset(
    (
        *("auth", "authorization", "cookie", "token", "secret", "password", "passwd", "pwd"),
        *("credential", "credentials", "signature", "sig", "apikey"),
    )
)
_ENDS: Final = ("token", "secret", "password", "apikey", "authorization")
_KINDS_OF_KEY: Final = frozenset(("api", "access", "secret", "private", "subscription", "account", "auth"))
_PLACEHOLDER: Final = re.compile(r"\{\{\s*\w+\s*\}\}")


def credential_names(values: Mapping[str, object]) -> list[str]:
    """The names whose values are credentials.

    Args:
        values: headers or the like. One with a ``{{placeholder}}`` comes with a call, and is none.

    >>> credential_names({"Accept": "*/*", "X-Api-Key": "k", "Authorization": "Bearer {{token}}"})
    ['X-Api-Key']
    """
    return [
        str(name)
        for name, value in values.items()
        if value and _tells(str(name)) and not _PLACEHOLDER.search(str(value))
    ]


def _tells(name: str) -> bool:
    words = [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word]
    if any(word in _WORDS or word.endswith(_ENDS) for word in words):
        return True
    return "key" in words and (len(words) == 1 or bool(_KINDS_OF_KEY.intersection(words)))
