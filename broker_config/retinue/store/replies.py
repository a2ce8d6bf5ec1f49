"""What a worker tells the store of a run, and what the store may answer: frozen values, matched by kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from retinue.contract import Phase, SubagentState
from retinue.store.record import Ending, Record, WakeUp


@dataclass(frozen=True, slots=True)
class Fence:
    """What proves that an attempt may write: both parts must match the record's.

    Raises:
        ValueError: The token is empty, which is how a record says that nobody holds it.
    """

    epoch: int
    token: str

    def __post_init__(self) -> None:
        if not self.token:
            raise ValueError("a fence needs the token of a claim")


@dataclass(frozen=True, slots=True)
class Pin:
    """The effective spec that a run keeps for its life.

    Args:
        digest: Of the spec; runs of a tree with the same one share it.
        spec_json: The spec.
        max_iterations: The effective limit of model requests.
        model, provider: What a status shows; "" = none.
        max_tool_calls: The effective limit of tool calls; None = none.
    """

    digest: str
    spec_json: str
    max_iterations: int
    model: str
    provider: str
    max_tool_calls: int | None = None


class RequestState(StrEnum):
    """How what a run asks of a human stands. What was answered, denied or expired has its result."""

    OPEN = "o"
    APPROVED = "a"  # its call may be run, once
    USED = "u"  # its call was begun
    DENIED = "d"
    ANSWERED = "i"
    EXPIRED = "x"


@dataclass(frozen=True, slots=True)
class Claimed:
    """A run that this process holds now, with all that it needs to go on.

    Args:
        fence: For every further write.
        now_ms: The server's clock.
        record: As it is after the claim.
        request_json: As launched.
        spec_json: The pinned effective spec, None before the first boundary.
        thread: The messages, JSON fragments in the model API's format.
        journal: Results of the running iteration: slot (iteration:index) -> JSON string.
        grants: Those of the run and its ancestors that narrow, root first.
        decisions: How the running iteration's requests stand, by slot.
    """

    fence: Fence
    now_ms: int
    record: Record
    request_json: str
    spec_json: str | None
    thread: list[str]
    journal: dict[str, str]
    grants: list[str]
    decisions: Mapping[str, RequestState] = field(default_factory=dict[str, "RequestState"])


@dataclass(frozen=True, slots=True)
class NotClaimed:
    """Nothing to do here: GONE, NOT_QUEUED (another wake-up was first), NOT_CAPABLE (`detail` = agent) or
    SUSPECT (a process was lost with it: it may only run alone)."""

    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The run is terminal. `wakeup` is owed to its parent, `woken` to runs that waited for budget."""

    state: SubagentState
    wakeup: WakeUp | None
    woken: tuple[WakeUp, ...] = ()

    @property
    def owed(self) -> tuple[WakeUp, ...]:
        """All wake-ups that are to be sent."""
        return self.woken if self.wakeup is None else (self.wakeup, *self.woken)


@dataclass(frozen=True, slots=True)
class Passed:
    """The boundary is passed: ask the model.

    Args:
        iteration: Of this request, from 1 on.
        messages: The results that joined the thread, in request order.
        steers: Texts that wait to be seen, oldest first.
        is_heard: Somebody listens to what the model writes.
    """

    iteration: int
    messages: list[str]
    steers: list[str]
    is_heard: bool = False


@dataclass(frozen=True, slots=True)
class Stopped:
    """The boundary is closed: CANCEL, INTERRUPT, DEADLINE or MAX_ITERATIONS, whose limit is told."""

    reason: str
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Paused:
    """The run has left this process for want of budget.

    Args:
        is_spent: It waits for a raise; else for what other runs have reserved.
        woken: Owed to other runs, which have room now.
    """

    is_spent: bool
    woken: tuple[WakeUp, ...]


@dataclass(frozen=True, slots=True)
class Spent:
    """A budget does not allow the request, and says to stop.

    Args:
        name: The cap.
        used, limit: In the cap's public unit, as text.
    """

    name: str
    used: str
    limit: str


@dataclass(frozen=True, slots=True)
class Unpriced:
    """A budget in USD stands above the run, and what its model costs is not known."""


@dataclass(frozen=True, slots=True)
class RecordedResponse:
    """The response stands in the store.

    Args:
        calls_allowed: How many of its calls the budgets above the run allow; None = all.
        woken: Owed to runs that waited for budget.
    """

    calls_allowed: int | None = None
    woken: tuple[WakeUp, ...] = ()


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of one call, to be written with an operation.

    Args:
        index: The call within its response, from 0 on.
        value: What the model reads, as text.
        tool: The tool's name.
        ok: False for a failed call.
    """

    index: int
    value: str = field(repr=False)
    tool: str
    ok: bool


@dataclass(frozen=True, slots=True)
class HandedOff:
    """The run is another agent's now, queued and owed a wake-up."""

    wakeup: WakeUp


@dataclass(frozen=True, slots=True)
class TooManyHandoffs:
    """The run has been handed off as often as it may; nothing was written."""

    limit: int


@dataclass(frozen=True, slots=True)
class Stale:
    """The attempt may not write: stop.

    It does not own the run (any more), or a store that came back has lost what the attempt wrote before: then
    it still owns the run, and gives it back, so that the next attempt goes on from what the store holds.
    """


@dataclass(frozen=True, slots=True)
class Recorded:
    """It stands in the store."""


@dataclass(frozen=True, slots=True)
class Suspended:
    """The run has left this process; `open` calls must be answered before it is queued again.

    Args:
        wakeup: The parent's, which waited for the run and is asked something by it.
    """

    open: int
    wakeup: WakeUp | None = None


@dataclass(frozen=True, slots=True)
class Ready:
    """All calls have been answered meanwhile: go on."""


@dataclass(frozen=True, slots=True)
class Approved:
    """Calls that a human approved meanwhile: run them before leaving."""

    slots: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Begun:
    """The approval is used up: run its call."""


@dataclass(frozen=True, slots=True)
class UsedBefore:
    """An earlier attempt used the approval up: how far its call came is not known."""


@dataclass(frozen=True, slots=True)
class NotApproved:
    """No human approved this call with these arguments."""


@dataclass(frozen=True, slots=True)
class Overtaken:
    """A steer came before the finish: pass another boundary."""


@dataclass(frozen=True, slots=True)
class Queued:
    """The run is queued again and owed a wake-up; `woken` are owed to runs that waited for budget."""

    wakeup: WakeUp
    woken: tuple[WakeUp, ...] = ()

    @property
    def owed(self) -> tuple[WakeUp, ...]:
        """All wake-ups that are to be sent."""
        return self.wakeup, *self.woken


@dataclass(frozen=True, slots=True)
class Response:
    """A model response to be recorded.

    Args:
        iteration: Of its boundary.
        thread_length: Messages before it.
        steers: How many of the boundary's steers it has seen.
        phase: What comes next: tool_call, or model_call when it calls nothing.
        messages: To append: a message for each steer, then the assistant's.
        tools: Names of the tools it calls, in request order.
        partial: Text beside the calls, kept as the partial result.
        input_tokens, output_tokens, cached_tokens, reasoning_tokens: Of this request.
        micro_usd: What it cost; None = unknown.
        ending: How it ended, for an attempt that finds it without having seen it.
        counted_calls: How many of its calls count as tool calls.
    """

    iteration: int
    thread_length: int
    steers: int
    phase: Phase
    messages: Sequence[str]
    tools: Sequence[str]
    partial: str | None
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    reasoning_tokens: int
    micro_usd: int | None
    ending: Ending
    counted_calls: int = 0
