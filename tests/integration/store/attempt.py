"""A worker's hold on a run in the store's tests: builds the calls that a worker would make."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from retinue.contract import ErrorClassification, Phase, RequestKind, SubagentState
from retinue.store.call import RunKey, ScriptCall
from retinue.store.operations import asking, handing_off, noting, running
from retinue.store.operations.asking import Asked
from retinue.store.operations.budgets import Reservation
from retinue.store.operations.launching import Parent
from retinue.store.record import Ending
from retinue.store.replies import CallResult, Claimed, Fence, Passed, Pin, Response

if TYPE_CHECKING:
    from tests.integration.store.stage import Stage

PIN = Pin("a" * 64, '{"agent":"support"}', 50, "gpt-5-mini", "openai")
REFUND = Asked(RequestKind.APPROVAL, "refund", "call_1", {"order": 7, "note": '\n"x"'}, "a" * 64)
WHERE = Asked(RequestKind.INPUT, "where are you", "call_2", {}, "b" * 64)
_operations = itertools.count(1)


class Attempt:
    """Each method gives the call, made of what the store holds now; `Stage.run` sends it.

    Args:
        stage: Where it plays.
        run: The run.
        claimed: What the claim handed out.
        fence: Another one than the claim's, for an attempt that is not entitled.
    """

    def __init__(self, stage: Stage, run: RunKey, claimed: Claimed, fence: Fence | None = None) -> None:
        self._stage = stage
        self.run = run
        self.claimed = claimed
        self.fence = fence or claimed.fence

    def with_fence(self, epoch: int, token: str) -> Attempt:
        return Attempt(self._stage, self.run, self.claimed, Fence(epoch, token))

    def operation(self) -> str:
        return f"{self.fence.token}:{next(_operations)}"

    def as_parent(self, iteration: int | None) -> Parent:
        """`iteration` None: launched by a tool's own code."""
        return Parent(self.run.run_id, self.fence.epoch, self.fence.token, iteration)

    def boundary(
        self,
        *,
        results: Sequence[int] = (),
        pin: Pin | None = PIN,
        length: int | None = None,
        reservation: Reservation | None = None,
    ) -> ScriptCall[Any]:
        """`results`: the calls of the last response, by index. Without a reservation it is one of nothing."""
        record = self._stage.record(self.run)
        if reservation is None and record.is_budgeted:
            reservation = Reservation(0, 0, 0, 0)
        return running.boundary(
            self.run,
            self.fence,
            self.operation(),
            thread_length=self._length() if length is None else length,
            results=[
                (f"{record.recorded_iteration}:{i}", f'{{"tool_call_id":"c{i}","content":') for i in results
            ],
            pin=pin,
            reservation=reservation,
        )

    def go(self, **how: Any) -> Passed:
        """Passes the boundary, which must be open."""
        passed = self._stage.run(self.boundary(**how))
        assert isinstance(passed, Passed), passed
        return passed

    def model(
        self,
        *,
        tools: Sequence[str] = (),
        steers: Sequence[str] = (),
        partial: str | None = None,
        iteration: int | None = None,
        length: int | None = None,
        ending: Ending = Ending.STOP,
        tokens: tuple[int, int] = (100, 20),
        micro_usd: int | None = 300,
    ) -> ScriptCall[Any]:
        response = Response(
            iteration=iteration or self._stage.record(self.run).iteration,
            thread_length=self._length() if length is None else length,
            steers=len(steers),
            phase=Phase.TOOL_CALL if tools else Phase.MODEL_CALL,
            messages=[*(f'{{"role":"user","content":"{text}"}}' for text in steers), '{"role":"assistant"}'],
            tools=tools,
            partial=partial,
            input_tokens=tokens[0],
            output_tokens=tokens[1],
            cached_tokens=10,
            reasoning_tokens=5,
            micro_usd=micro_usd,
            ending=ending,
            counted_calls=len(tools),
        )
        return running.record_model(self.run, self.fence, self.operation(), response)

    def tool(
        self, index: int = 0, value: str = "found", *, tool: str = "search", iteration: int | None = None
    ) -> ScriptCall[Any]:
        return running.record_tool_result(
            self.run,
            self.fence,
            iteration=iteration or self._stage.record(self.run).recorded_iteration,
            index=index,
            value=value,
            tool=tool,
            ok=True,
            duration_ms=7,
        )

    def suspend(
        self, children: Sequence[RunKey], *, phase: Phase = Phase.WAITING_CHILDREN
    ) -> ScriptCall[Any]:
        iteration = self._stage.record(self.run).recorded_iteration
        entries = [(f"{iteration}:{n}", f"child:{child.run_id}") for n, child in enumerate(children)]
        return running.suspend(self.run, self.fence, self.operation(), phase=phase, entries=entries)

    def ask(
        self,
        *asked: Asked | RunKey,
        phase: Phase = Phase.WAITING_APPROVAL,
        asking_ms: int = 60_000,
    ) -> ScriptCall[Any]:
        """Suspends on what a human is asked, or a child, by call."""
        iteration = self._stage.record(self.run).recorded_iteration
        entries = [
            (f"{iteration}:{n}", entry if isinstance(entry, Asked) else f"child:{entry.run_id}")
            for n, entry in enumerate(asked)
        ]
        return self.suspend_on(entries, phase=phase, asking_ms=asking_ms)

    def suspend_on(
        self,
        entries: Sequence[tuple[str, str | Asked]],
        *,
        phase: Phase = Phase.WAITING_APPROVAL,
        asking_ms: int = 60_000,
    ) -> ScriptCall[Any]:
        """Suspends on open entries by slot."""
        return running.suspend(
            self.run, self.fence, self.operation(), phase=phase, entries=entries, asking_ms=asking_ms
        )

    def begin(self, index: int = 0, *, argument_hash: str = "a" * 64) -> ScriptCall[Any]:
        """Uses up the approval of a call."""
        slot = f"{self._stage.record(self.run).recorded_iteration}:{index}"
        return asking.begin_approved(
            self.run, self.fence, self.operation(), slot=slot, argument_hash=argument_hash
        )

    def finish(
        self,
        state: SubagentState = SubagentState.SUCCEEDED,
        classification: ErrorClassification | None = None,
        *,
        reply: str = "done",
        natural: bool | None = None,
        answers: Sequence[tuple[str, str]] = (),
    ) -> ScriptCall[Any]:
        return running.finish(
            self.run,
            self.fence,
            self.operation(),
            state=state,
            classification=classification,
            result_json='{"summary":"done"}',
            reply=reply,
            natural=state is SubagentState.SUCCEEDED if natural is None else natural,
            answers=answers,
        )

    def hand_off(self, *, max_handoffs: int = 20, **changes: Any) -> ScriptCall[Any]:
        """A handoff from support to the researcher by the first call; `changes`: other arguments."""
        values: dict[str, Any] = {
            "iteration": self._stage.record(self.run).recorded_iteration,
            "sender": "support",
            "recipient": "researcher",
            "queue": "research",
            "results": (CallResult(0, "handed over", "handoff_conversation", ok=True),),
        }
        return handing_off.hand_off(
            self.run, self.fence, self.operation(), max_handoffs=max_handoffs, **(values | changes)
        )

    def hand_back(self, *, times_before_end: int | None = None) -> ScriptCall[Any]:
        return running.hand_back(self.run, self.fence, self.operation(), times_before_end=times_before_end)

    def retry(self) -> ScriptCall[Any]:
        return noting.note_retry(self.run, self.fence, iteration=1, reason="MODEL_UNAVAILABLE", delay_ms=250)

    def draining(self) -> ScriptCall[Any]:
        return noting.note_draining(self.run, self.fence)

    def progress(self, message: str = "half") -> ScriptCall[Any]:
        return noting.note_progress(self.run, self.fence, index=0, message=message)

    def _length(self) -> int:
        return len(self._stage.thread(self.run))
