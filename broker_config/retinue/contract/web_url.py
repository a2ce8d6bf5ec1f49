"""The check of a URL's form. Whether its host may be reached is looked at by whoever connects."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from .checks import text
from .errors import SubagentLifecycleError
from .limits import URL_MAX_CHARS

_UNFIT: Final = re.compile(r'[^\x21-\x7e]|[\\<>"{}|^`]')
_LIMIT: Final = f"an http:// or https:// URL of at most {URL_MAX_CHARS:,} ASCII characters"
_url_text: Final = text(max_chars=URL_MAX_CHARS)


def web_url(field: str, value: object) -> str:
    """The URL, if it has a host, and neither credentials nor a fragment.

    Raises:
        SubagentLifecycleError: it is none; names field, limit and mend.
    """
    url = _url_text(field, value)
    wrong = _fault(url)
    if wrong is not None:
        mend = "give one such as https://example.com/hooks; what is not ASCII, percent-encoded"
        raise SubagentLifecycleError(wrong, field=field, limit=_LIMIT, mend=mend)
    return url


def _fault(url: str) -> str | None:
    if _UNFIT.search(url):
        return "has blanks, control characters or others that no URL has"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "has a malformed host or port"
    if parts.scheme not in ("http", "https"):
        return "is of another scheme than http and https"
    if not parts.hostname or port == 0:
        return "names no host, or a port that nobody listens on"
    if "@" in parts.netloc:
        return "has credentials in it, which would show in lists"
    return "has a fragment, which is never sent" if "#" in url else None
