"""How many tokens a model request may take at most: before it is sent, for budgets and providers' limits."""

from __future__ import annotations

import json
from typing import Final

from retinue.worker.models import ModelRequest

_BYTES_PER_TOKEN: Final = 3  # English has four and more, text beyond ASCII about three
_OUTPUT_LIMITS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def input_tokens_of(request: ModelRequest, measured: tuple[int, int] | None) -> int:
    """An upper estimate, of the bytes that are sent; what a response was counted with is taken as counted.

    Args:
        measured: How many of the request's entries a response was counted with, and their tokens with all
            else that is sent. None = none was.
    """
    if measured is not None:
        entries, tokens = measured
        return tokens + _tokens_of(*request.entries[entries:])
    tools = (f"{tool.name}{tool.description}{json.dumps(dict(tool.parameters))}" for tool in request.tools)
    return _tokens_of(request.system, *tools, *request.entries)


def output_tokens_of(request: ModelRequest, default: int) -> int:
    """What the answer is limited to.

    Args:
        default: Where neither the agent nor its provider's settings limit it.
    """
    for limits in (request.provider.overrides, request.params):
        for name in _OUTPUT_LIMITS:
            limit = limits.get(name)
            if isinstance(limit, int) and limit > 0:
                return limit
    return default


def _tokens_of(*texts: str) -> int:
    return sum(-(-len(text.encode()) // _BYTES_PER_TOKEN) for text in texts)
