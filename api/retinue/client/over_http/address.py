"""Where the API is and who asks: checked once, and never shown with the key."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

import httpx2

from retinue.contract import SubagentLifecycleError

API_KEY_VARIABLE = "RETINUE_API_KEY"


@dataclass(frozen=True, slots=True)
class ApiAddress:
    """An API and the caller's key for it.

    Args:
        url: Its root, without a slash at the end.
        api_key: None = handles alone must do.
        tenant: What the caller takes the key's tenant to be. None = whatever it is.
    """

    url: str
    api_key: str | None = field(default=None, repr=False)
    tenant: str | None = None

    @classmethod
    def checked(cls, url: object, api_key: object, tenant: str, settings: object = None) -> ApiAddress:
        """The address that a caller means.

        Args:
            url: http or https, with a path where the API lies below one.
            api_key: None = the variable RETINUE_API_KEY, if it is set.
            tenant: "_" = the key's; without a key the handles'.
            settings: Of no use here: they tell how to reach the store.

        Raises:
            SubagentLifecycleError: One of them breaks the rules; the key is not repeated.
        """
        if settings is not None:
            raise SubagentLifecycleError(
                "are given along with a url",
                field="settings",
                limit="one of the two",
                mend="leave them out: the API has its own",
            )
        key = _checked_key(os.environ.get(API_KEY_VARIABLE) or None if api_key is None else api_key)
        return cls(_checked_url(url), key, None if tenant == "_" and key is not None else tenant)

    def headers(self) -> Mapping[str, str]:
        """What every request carries."""
        named = {} if self.tenant is None else {"Retinue-Tenant": self.tenant}
        return named if self.api_key is None else {**named, "Authorization": f"Bearer {self.api_key}"}


def _checked_url(value: object) -> str:
    parts: SplitResult | None = None
    try:
        if isinstance(value, str) and value.isprintable() and " " not in value:
            httpx2.URL(value)  # raises where it is none; and so does the port
            parts = urlsplit(value)
            parts.port  # noqa: B018
    except (ValueError, httpx2.InvalidURL):
        parts = None
    wrong = None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        wrong = "is no such address"
    elif parts.username is not None or parts.password is not None:
        wrong = "holds credentials"
    elif parts.query or parts.fragment:
        wrong = "has a query or a fragment"
    if parts is None or wrong is not None:
        raise SubagentLifecycleError(
            wrong or "is no such address",
            field="url",
            limit="http or https, a host, and a path where the API lies below one",
            mend='give the API\'s root, as in "https://agents.example.com", and the key as api_key',
        )
    return parts.geturl().rstrip("/")


def _checked_key(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, str) and value.isascii() and value.isprintable() and value and " " not in value:
        return value
    raise SubagentLifecycleError(
        "is no API key",
        field="api_key",
        limit="printable ASCII without blanks",
        mend=f"give what `retinue keys create` printed, or set {API_KEY_VARIABLE}",
    )
