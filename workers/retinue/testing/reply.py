"""What both wire formats need to know about a reply: ids, argument texts, token counts, its end."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

from retinue.testing.request import ScriptedRequest
from retinue.testing.scripts import Turn, TurnUsage

_CHARS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class WireCall:
    """A tool call as it is sent: every part is text."""

    id: str
    tool: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ReplyFacts:
    """Facts about one reply, the same for the same request."""

    id: str
    calls: tuple[WireCall, ...]
    finish_reason: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    reasoning_tokens: int


def reply_facts(script: str | None, turn: Turn, request: ScriptedRequest) -> ReplyFacts:
    """Derive the facts; token counts are a quarter of the characters, rounded up, unless set."""
    calls = tuple(
        WireCall(
            id=call.id or "",
            tool=call.tool,
            arguments=call.arguments if isinstance(call.arguments, str) else json.dumps(dict(call.arguments)),
        )
        for call in turn.calls
    )
    usage = turn.usage or TurnUsage()
    output_chars = len(turn.text) + len(turn.refusal or "") + sum(len(c.tool + c.arguments) for c in calls)
    seed = f"{script}\0{request.turn}\0{request.last_user}\0{turn.text}"
    return ReplyFacts(
        id=hashlib.sha256(seed.encode(errors="replace")).hexdigest()[:24],
        calls=calls,
        finish_reason=turn.finish_reason or ("tool_calls" if calls else "stop"),
        input_tokens=_tokens(request.input_chars()) if usage.input_tokens is None else usage.input_tokens,
        output_tokens=_tokens(output_chars) if usage.output_tokens is None else usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        reasoning_tokens=usage.reasoning_tokens,
    )


def pieces(text: str, chars: int) -> Iterator[str]:
    """Cut a text into parts of at most `chars` characters."""
    for start in range(0, len(text), max(1, chars)):
        yield text[start : start + max(1, chars)]


def _tokens(chars: int) -> int:
    return max(1, -(-chars // _CHARS_PER_TOKEN))
