"""Fills a RemoteTool's request with the arguments of a call; what a model writes stays within its place.

In a path an argument is one segment, in a query one value. Scheme, host and port depend on an argument only
where the document lists the URLs that may come out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, unquote, urlencode

import httpx2
from pydantic import JsonValue, SecretStr

from retinue.agents.agentspec.placeholders import fill, placeholders
from retinue.agents.agentspec.remote_spec import METHODS, RemoteSpec, split_url
from retinue.agents.tools.tool_result import result_text
from retinue.contract import RetinueError

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f]")
# They say where a message ends and for whom it is: an argument must not.
_RESERVED_HEADERS: Final = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "upgrade", "te"}
)
_FORM: Final = "application/x-www-form-urlencoded"


class RemoteRequestError(RetinueError):
    """The request cannot be sent as it was filled; the text is the call's result."""


@dataclass(frozen=True, slots=True)
class RemoteRequest:
    """A request, ready to be sent.

    Args:
        method: HTTP method.
        url: Where to.
        headers: With those of the settings.
        secret_headers: Names, in lower case, of those that may go to no other host.
        content: The body. None = none.
        allow_list: URLs that a redirect must begin with as well. None = any that may be reached.
    """

    method: str
    url: httpx2.URL
    headers: dict[str, str] = field(repr=False)
    secret_headers: frozenset[str]
    content: bytes | None = field(repr=False)
    allow_list: tuple[str, ...] | None = None


def fill_request(
    spec: RemoteSpec, arguments: Mapping[str, JsonValue], secrets: Mapping[str, SecretStr]
) -> RemoteRequest:
    """The request of one call.

    Args:
        spec: The tool's.
        arguments: The call's, by name.
        secrets: Headers that hold credentials; they win over all others of their names.

    Raises:
        RemoteRequestError: An argument does not fit its place, or the URL is not allowed.
    """
    method = _text(spec.method, arguments).strip().upper()
    if method not in METHODS:
        raise RemoteRequestError(f"{method!r:.40} is no HTTP method; use {', '.join(sorted(METHODS))}.")
    headers = _headers(spec, arguments, secrets)
    content = _content(spec, arguments, headers)
    return RemoteRequest(
        method=method,
        url=_url(spec, arguments),
        headers=headers,
        secret_headers=frozenset(name.lower() for name in secrets),
        content=content,
        allow_list=spec.allow_list,
    )


def allowed(url: httpx2.URL, allow_list: tuple[str, ...]) -> bool:
    """Whether the URL begins with one of the list: same scheme, host and port, and the path's beginning."""
    for entry in allow_list:
        try:
            known = httpx2.URL(entry)
        except (httpx2.InvalidURL, ValueError):
            continue
        same_place = (url.scheme, url.raw_host, url.port) == (known.scheme, known.raw_host, known.port)
        if same_place and url.path.startswith(known.path):
            return True
    return False


def shown(url: httpx2.URL) -> str:
    """The URL without query and user, for messages."""
    return str(url.copy_with(userinfo=b"", query=None, fragment=None))


def _url(spec: RemoteSpec, arguments: Mapping[str, JsonValue]) -> httpx2.URL:
    head, rest = split_url(spec.url)
    if placeholders(head) and spec.allow_list is None:
        raise RemoteRequestError(
            f"The host of {spec.name!r} is not fixed; its document needs a url_allow_list."
        )
    path, _, query = rest.partition("#")[0].partition("?")
    parts = [_quoted(query, arguments), urlencode(_query(spec.query, arguments))]
    queries = "&".join(part for part in parts if part)
    filled = _text(head, arguments) + _path(path, arguments)
    return _checked(spec, f"{filled}?{queries}" if queries else filled)


def _checked(spec: RemoteSpec, text: str) -> httpx2.URL:
    if _UNPRINTABLE.search(text) or "\\" in text:
        raise RemoteRequestError(f"The URL of {spec.name!r} has characters that no URL has.")
    try:
        url = httpx2.URL(text)
    except (httpx2.InvalidURL, ValueError, UnicodeError):
        raise RemoteRequestError(
            f'The URL of {spec.name!r} is none; the operator can set [remote_tools.tools."{spec.name}"] url.'
        ) from None
    if url.scheme not in ("http", "https") or not url.host or url.userinfo:
        raise RemoteRequestError(f"The URL of {spec.name!r} is not http(s), has no host, or names a user.")
    if _leads_upwards(unquote(url.raw_path.decode("ascii").partition("?")[0])):
        raise RemoteRequestError(f"The path of {spec.name!r} would lead upwards; send a plain name.")
    if spec.allow_list is not None and not allowed(url, spec.allow_list):
        raise RemoteRequestError(f"{shown(url)} is not among the URLs that {spec.name!r} may call.")
    return url


def _path(template: str, arguments: Mapping[str, JsonValue]) -> str:
    for name in placeholders(template):
        if _leads_upwards(unquote(result_text(_plain(arguments).get(name, "")))):
            raise RemoteRequestError(f"Argument {name!r} would lead upwards in the path; send a plain name.")
    return _quoted(template, arguments)


def _leads_upwards(path: str) -> bool:
    return any(segment in (".", "..") for segment in re.split(r"[/\\]", path))


def _quoted(template: str, arguments: Mapping[str, JsonValue]) -> str:
    values = {name: quote(result_text(value), safe="") for name, value in _plain(arguments).items()}
    return fill(template, values)


def _query(query: Mapping[str, JsonValue], arguments: Mapping[str, JsonValue]) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for name, template in query.items():
        value = _filled(template, arguments)
        for each in value if isinstance(value, list) else [value]:
            if each is not None:
                text = each if isinstance(each, str) else json.dumps(each)
                pairs.append((_text(name, arguments), text))
    return pairs


def _headers(
    spec: RemoteSpec, arguments: Mapping[str, JsonValue], secrets: Mapping[str, SecretStr]
) -> dict[str, str]:
    given = {_text(name, arguments): _text(value, arguments) for name, value in spec.headers.items()}
    for name, value in given.items():
        if not _HEADER_NAME.fullmatch(name) or name.lower() in _RESERVED_HEADERS:
            raise RemoteRequestError(f"{name!r:.80} is no header that {spec.name!r} may set.")
        if _UNPRINTABLE.search(value) or not value.isascii():
            raise RemoteRequestError(f"The header {name!r} may hold plain ASCII in one line only.")
    taken = {name.lower() for name in secrets}
    kept = {name: value for name, value in given.items() if name.lower() not in taken}
    return {**kept, **{name: value.get_secret_value() for name, value in secrets.items()}}


def _content(spec: RemoteSpec, arguments: Mapping[str, JsonValue], headers: dict[str, str]) -> bytes | None:
    """The body; says in `headers` what it is, unless they say so already."""
    data = _filled(spec.data, arguments)
    if not data:
        return None
    declared = next((value for name, value in headers.items() if name.lower() == "content-type"), None)
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, dict) and declared and _FORM in declared:
        return urlencode(_query(data, {})).encode()
    if declared is None:
        headers["Content-Type"] = "application/json"
    return json.dumps(data, ensure_ascii=False).encode()


def _filled(template: JsonValue, arguments: Mapping[str, JsonValue]) -> JsonValue:
    """The template with its texts filled, names of members as well; a None that stands alone stays one."""
    if isinstance(template, str):
        alone = re.fullmatch(r"\s*\{\{\s*(\w+)\s*\}\}\s*", template)
        return None if alone and arguments.get(alone[1], "") is None else _text(template, arguments)
    if isinstance(template, list):
        return [_filled(item, arguments) for item in template]
    if isinstance(template, dict):
        return {_text(name, arguments): _filled(item, arguments) for name, item in template.items()}
    return template


def _text(template: str, arguments: Mapping[str, JsonValue]) -> str:
    return fill(template, _plain(arguments))


def _plain(arguments: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The arguments as texts are made of them: nothing for None."""
    return {name: "" if value is None else value for name, value in arguments.items()}
