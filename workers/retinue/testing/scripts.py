"""What an agent's model says: turns, and the script that strings them together.

The turn that answers a request is derived from the request alone (how many assistant turns its
history holds). A request repeated after a crash or a time-out therefore gets the same answer, and
the order in which concurrent runs arrive does not matter.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar

from pydantic import ConfigDict

from retinue.contract.errors import RetinueError
from retinue.testing.faults import Fault
from retinue.testing.request import ScriptedRequest

# Read by script_file.py, which builds these classes from JSON.
_NO_OTHER_FIELDS = ConfigDict(extra="forbid")


class ScriptError(RetinueError, ValueError):
    """A script that contradicts itself, or has no answer for a request."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of a turn.

    Attributes:
        arguments: a mapping, sent as JSON; a string is sent as it stands, also if it is no JSON.
        id: the provider's call id; None = derived from script, turn and position.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _NO_OTHER_FIELDS

    tool: str
    arguments: Mapping[str, Any] | str = "{}"
    id: str | None = None


@dataclass(frozen=True, slots=True)
class TurnUsage:
    """The token counts that a reply reports. None = derived from the lengths of the texts."""

    __pydantic_config__: ClassVar[ConfigDict] = _NO_OTHER_FIELDS

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Turn:
    """One model response.

    Attributes:
        text: may hold `${user}`, `${results}`, `${model}` and `${turn}`, filled from the request;
            so may the strings in the arguments of calls.
        reasoning: opaque text of a reasoning item (responses only).
        finish_reason: None = "tool_calls" with calls, else "stop"; "length" and "content_filter"
            make a responses reply incomplete.
        first_byte_after_s: the model's thinking time.
        chunk_interval_s: pause between the events of a stream; 0 = all in one write.
        chunk_chars: characters of text or arguments per stream event.
        gate: the reply waits until `ScriptedServer.release(gate)`.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _NO_OTHER_FIELDS

    text: str = ""
    calls: tuple[Call, ...] = ()
    refusal: str | None = None
    reasoning: str | None = None
    usage: TurnUsage | None = None
    omit_usage: bool = False
    finish_reason: str | None = None
    first_byte_after_s: float | None = None
    chunk_interval_s: float = 0.0
    chunk_chars: int = 16
    gate: str | None = None


Reply = Turn | str | Callable[[ScriptedRequest], "Turn | str"]


class FaultScope(StrEnum):
    """What the count of a fault is counted over."""

    SHARED = "shared"
    """The first n requests that get there, whichever run they belong to."""
    EACH_HISTORY = "each_history"
    """The first n requests with the same history: every run meets the fault."""


class TurnCount(StrEnum):
    """Which assistant turns of a history say how far a script has come."""

    TOTAL = "total"
    SINCE_USER = "since_user"
    """Those after the last user message: the script starts anew with each one, a steer too."""


@dataclass(frozen=True, slots=True)
class CountedFault:
    """A fault and how often it strikes: `times` None = always."""

    fault: Fault
    times: int | None = 1
    scope: FaultScope = FaultScope.SHARED


@dataclass(frozen=True, slots=True)
class Match:
    """A condition on a request; every given field must hold.

    Attributes:
        user_contains: looked for in the last user message.
        has_result_of: name of a tool whose result is in the history.
        result_contains: looked for in every tool result of the history.
        turn: assistant turns in the history.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _NO_OTHER_FIELDS

    model: str | None = None
    system_contains: str | None = None
    user_contains: str | None = None
    has_result_of: str | None = None
    result_contains: str | None = None
    turn: int | None = None

    def __call__(self, request: ScriptedRequest) -> bool:
        """Whether the request meets the condition."""
        return (
            (self.model is None or self.model == request.model)
            and (self.system_contains is None or self.system_contains in request.system)
            and (self.user_contains is None or self.user_contains in request.last_user)
            and (self.has_result_of is None or bool(request.results_of(self.has_result_of)))
            and (self.result_contains is None or any(self.result_contains in r.text for r in request.results))
            and (self.turn is None or self.turn == request.turn)
        )


Condition = Callable[[ScriptedRequest], bool]


@dataclass(slots=True)
class Step:
    """One turn of a script with its faults."""

    reply: Reply
    faults: tuple[CountedFault, ...] = ()


class Script:
    """The turns of one agent, built by chaining: `say` and `call` fill a turn, `then` begins the next.

    A request past the last turn is an error (400 `script_exhausted`) unless `repeat_last` was called.
    """

    def __init__(self, name: str, when: Condition | None = None, count: TurnCount = TurnCount.TOTAL) -> None:
        self.name = name
        self.when = when
        self.count = count
        self.steps: list[Step] = []
        self.faults: tuple[CountedFault, ...] = ()
        self._open = False
        self._repeats = False

    def say(self, text: str) -> "Script":
        """Give the turn a text."""
        return self._change(text=text)

    def call(
        self, tool: str, arguments: Mapping[str, Any] | str | None = None, id: str | None = None
    ) -> "Script":
        """Add a tool call to the turn; several calls in a row are parallel calls of one turn."""
        call = Call(tool, {} if arguments is None else arguments, id)
        return self._change(calls=(*self._turn().calls, call))

    def refuse(self, text: str) -> "Script":
        """Make the turn a refusal."""
        return self._change(refusal=text)

    def think(self, text: str) -> "Script":
        """Give the turn a reasoning item (responses only)."""
        return self._change(reasoning=text)

    def usage(self, usage: TurnUsage | None) -> "Script":
        """Set the token counts that the turn reports; None = the reply has no usage at all."""
        return self._change(usage=usage, omit_usage=usage is None)

    def finish_reason(self, reason: str) -> "Script":
        """End the turn for another reason than a natural one, such as "length"."""
        return self._change(finish_reason=reason)

    def pace(
        self, *, first_byte_after_s: float | None = None, chunk_interval_s: float = 0.0, chunk_chars: int = 16
    ) -> "Script":
        """Set how fast the turn comes."""
        return self._change(
            first_byte_after_s=first_byte_after_s, chunk_interval_s=chunk_interval_s, chunk_chars=chunk_chars
        )

    def hold(self, gate: str) -> "Script":
        """Keep the turn back until `ScriptedServer.release(gate)`."""
        return self._change(gate=gate)

    def then(self, reply: Reply | None = None) -> "Script":
        """Begin the next turn, with `reply` (a text, a Turn or a function of the request) if given."""
        self._open = reply is not None
        if reply is not None:
            self.steps.append(Step(Turn(text=reply) if isinstance(reply, str) else reply))
        return self

    def reply(self, function: Callable[[ScriptedRequest], "Turn | str"]) -> "Script":
        """Compute this and every later turn from the request.

        The function runs on the server's loop: it must not block.
        """
        return self.then(function).repeat_last()

    def repeat_last(self) -> "Script":
        """Answer requests past the end with the last turn."""
        self._repeats = True
        return self

    def fault(
        self, fault: Fault, *, times: int | None = 1, scope: FaultScope = FaultScope.SHARED
    ) -> "Script":
        """Let the turn fail for the first `times` requests (None = always)."""
        self._turn()
        step = self.steps[-1]
        step.faults = (*step.faults, CountedFault(fault, times, scope))
        return self

    def fault_any_turn(
        self, fault: Fault, *, times: int | None = 1, scope: FaultScope = FaultScope.SHARED
    ) -> "Script":
        """Let the first `times` requests of any turn fail; these strike before a turn's own."""
        self.faults = (*self.faults, CountedFault(fault, times, scope))
        return self

    def position(self, request: ScriptedRequest) -> int:
        """The index of the turn that answers a request, past the end if none does."""
        turn = request.turn if self.count is TurnCount.TOTAL else request.turn_since_user
        return min(turn, len(self.steps) - 1) if self._repeats else turn

    def _turn(self) -> Turn:
        """The turn being built, begun if there is none."""
        if not self._open:
            self.steps.append(Step(Turn()))
            self._open = True
        turn = self.steps[-1].reply
        return turn if isinstance(turn, Turn) else Turn()

    def _change(self, **fields: Any) -> "Script":
        turn = self._turn()
        if callable(self.steps[-1].reply):
            raise ScriptError(f"script {self.name!r}: this turn is computed by a function; call then() first")
        self.steps[-1].reply = replace(turn, **fields)
        return self
