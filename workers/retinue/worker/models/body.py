"""The body of a request: a small head, encoded each time, and the history spliced in as it is stored."""

from collections.abc import Iterable

from retinue.contract import ErrorClassification
from retinue.worker.models.base import ModelError, ModelRequest
from retinue.worker.models.wire import JsonObject, dump_json

_HISTORY = frozenset({"messages", "input"})
_STRUCTURE = _HISTORY | {"model", "instructions", "tools", "stream", "stream_options", "store", "include"}


def build(
    request: ModelRequest, head: JsonObject, limit_key: str, history_key: str, history: Iterable[str]
) -> bytes:
    """Encode one request.

    Args:
        request: Its params and its provider's overrides go into the head, the overrides last.
        head: Model, tools and what else the API needs.
        limit_key: The API's name for the param `max_tokens`.
        history_key: `messages` or `input`.
        history: JSON fragments in order.

    Raises:
        ModelError: A param or an override is none that may be set, or is not JSON.
    """
    _check(request)
    for key, value in request.params.items():
        if value is not None:
            head[limit_key if key == "max_tokens" else key] = value
    for key, value in request.provider.overrides.items():
        if value is None:
            head.pop(key, None)
        else:
            head[key] = value
    try:
        start = dump_json(head)
    except (TypeError, ValueError, RecursionError):
        raise ModelError(
            f"the params or tools for provider {request.provider.name!r} cannot be written as JSON",
            classification=ErrorClassification.MODEL_REJECTED,
        ) from None
    return f'{start[:-1]},"{history_key}":[{",".join(history)}]}}'.encode()


def _check(request: ModelRequest) -> None:
    name = request.provider.name
    for where, refused in (
        ("model params", _STRUCTURE.intersection(request.params)),
        (f"overrides of provider {name!r}", _HISTORY.intersection(request.provider.overrides)),
    ):
        if refused:
            raise ModelError(
                f"{where} may not set {', '.join(sorted(refused))}; remove it",
                classification=ErrorClassification.MODEL_REJECTED,
            )
