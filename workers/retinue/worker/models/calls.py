"""What models get wrong about tool calls, mended so that the thread stays acceptable to every server."""

from collections.abc import Sequence

from retinue.worker.models.wire import dump_json, load_object

MALFORMED = "_malformed_arguments"
"""The single key of the object that carries arguments which were no JSON object."""


def wire_arguments(raw: str) -> str:
    """The arguments as they are stored: the model's own text if it is a JSON object, else wrapped in one.

    Servers that render the history through a chat template (vLLM among them) parse the arguments of every
    earlier call and answer 400 to the whole thread if one of them is broken.
    """
    if not raw.strip():
        return "{}"
    return raw if load_object(raw) is not None else dump_json({MALFORMED: raw})


def raw_arguments(stored: str) -> str:
    """What the model wrote, from what `wire_arguments` made of it."""
    if stored.startswith(f'{{"{MALFORMED}":'):
        wrapped = load_object(stored)
        if wrapped is not None and len(wrapped) == 1 and isinstance(raw := wrapped[MALFORMED], str):
            return raw
    return stored if stored.strip() else "{}"


def unique_call_ids(ids: Sequence[str], turn: int) -> list[str]:
    """`ids` with each missing or repeated one replaced by one made from its place.

    Args:
        ids: As the model gave them, "" = missing.
        turn: The thread's length, so that made ids differ between turns.

    Returns:
        Unique ids; the made ones have nine letters and digits, which Mistral's servers insist on.
    """
    taken = set(ids)
    seen: set[str] = set()
    mended: list[str] = []
    for index, call_id in enumerate(ids):
        if not call_id or call_id in seen:
            number = turn % 10_000 * 10_000 + index
            while (call_id := f"c{number:08d}") in taken or call_id in seen:
                number += 1
        seen.add(call_id)
        mended.append(call_id)
    return mended
