"""The page's files as they are sent: read once, named by what they hold, and under a strict policy.

The browser may keep a file for ever, because the directory in its address is the digest of all files. The
modules import each other by relative names, so nothing is rewritten and there is no build step.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

_INDEX: Final = "index.html"
_DIGEST_CHARS: Final = 16
_TYPES: Final[Mapping[str, str]] = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}

POLICY: Final = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        # Text from models and users can then not become markup or script, whatever the code does.
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""The page's Content-Security-Policy."""


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of the page.

    Args:
        body: What is sent.
        media_type: Its Content-Type.
        tag: Its ETag, quotes included.
    """

    body: bytes
    media_type: str
    tag: str


@dataclass(frozen=True, slots=True)
class Assets:
    """All of them.

    Args:
        digest: Of all files together: part of the address of each.
        index: What `/` answers.
        named: The others, by name.
    """

    digest: str
    index: Asset
    named: Mapping[str, Asset]


@cache
def load_assets() -> Assets:
    """The page's files, read from the package at the first call."""
    folder = files("retinue.http.page") / "static"
    found = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    digest = _digest(b"".join(name.encode() + body for name, body in sorted(found.items())))
    # Loaded at once, rather than each module once the one that imports it has been read.
    modules = sorted(name for name in found if name.endswith(".js"))
    preloads = "\n".join(f'<link rel="modulepreload" href="assets/{digest}/{name}">' for name in modules)
    index = found.pop(_INDEX).decode().replace("{{preloads}}", preloads).replace("{{digest}}", digest)
    return Assets(digest, _asset(_INDEX, index.encode()), {name: _asset(name, found[name]) for name in found})


def _asset(name: str, body: bytes) -> Asset:
    return Asset(body, _TYPES[name.rpartition(".")[2]], f'"{_digest(body)}"')


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:_DIGEST_CHARS]
