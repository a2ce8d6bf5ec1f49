"""Names as model APIs accept them, made from names as people write them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from retinue.contract.errors import DeclarationError

# The rule for function names that OpenAI-compatible APIs share.
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]+")
_MAX_CHARS = 64


def api_name(name: str) -> str:
    """The name with everything that model APIs refuse replaced by ``_``, cut to 64 characters.

    >>> api_name("Check refund eligibility")
    'Check_refund_eligibility'
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode("ascii")
    return _FOREIGN.sub("_", plain.strip())[:_MAX_CHARS].strip("_") or "tool"


def api_names(names: Iterable[str], *, owner: str, reserved: Iterable[str] = ()) -> dict[str, str]:
    """Each name's API name.

    Args:
        names: tool names of one agent.
        owner: the agent, for the message.
        reserved: API names that the tools may not take.

    Raises:
        DeclarationError: two names become the same, or one becomes a reserved name.
    """
    taken = {name: f"the built-in tool {name!r}" for name in reserved}
    result: dict[str, str] = {}
    for name in names:
        short = api_name(name)
        if short in taken and name not in result:
            raise DeclarationError(
                f"tool {name!r} of {owner} and {taken[short]} have the same name {short!r} for the model",
                field="tools",
                mend="rename one of them",
            )
        result[name] = short
        taken[short] = f"tool {name!r}"
    return result


def loose(name: str) -> str:
    """The name without case, blanks and punctuation: what a model that misspells it still gets right."""
    return "".join(char for char in name.casefold() if char.isalnum())
