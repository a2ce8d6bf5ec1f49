"""How a run ends that owes an object: by a call of `submit_result`, or by a text that is its JSON.

What does not fit is sent back once. Whether that has happened is read off the run's own responses and nothing
else, so an attempt that dies in between grants nobody another try.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from pydantic import JsonValue

from retinue.agents.builtin_tools.output import (
    SUBMIT_RESULT,
    FittingOutput,
    UnfitOutput,
    read_answer,
    read_submitted,
)
from retinue.contract import ErrorClassification, SubagentState
from retinue.worker.calls.call_handler import Answered
from retinue.worker.calls.tool_calls import ToolCalls
from retinue.worker.calls.turn import TurnCall
from retinue.worker.models import Api, ToolCall
from retinue.worker.models.entries import calls_of, last_text, own_responses
from retinue.worker.run.held import HeldRun
from retinue.worker.run.outcome import Fenced, Finish

_log = logging.getLogger("retinue.worker")
_ACCEPTED = "[OK] Accepted. Your work is done, unless you are told more: then submit the result again."
_AGAIN = f"Call {SUBMIT_RESULT} with one complete object that fits its parameters. There is no further try."


@dataclass(frozen=True, slots=True)
class Correction:
    """The run goes on with this text to its model: what it answered does not fit."""

    text: str


class Submission:
    """Answers the calls of `submit_result`, and judges what is to be a run's result.

    Args:
        run: The run.
        tools: Writes the results of its calls.
    """

    def __init__(self, run: HeldRun, tools: ToolCalls) -> None:
        self._run = run
        self._tools = tools

    async def start(self, asked: TurnCall, *, lost: bool) -> Answered | Fenced:
        """Tells the model whether its result is accepted; the run ends when the turn's other calls have."""
        del lost  # judging has no effect that could happen twice
        started = time.monotonic()
        output = read_submitted(self._schema, asked.call.arguments)
        ok = isinstance(output, FittingOutput)
        text = _ACCEPTED if isinstance(output, FittingOutput) else f"[ERROR] {_sent_back(output)}"
        kept = await self._tools.record(asked.index, asked.call.name, text, ok=ok, started=started)
        return Answered() if kept else Fenced()

    def end_of_turn(self, api: Api, calls: Sequence[ToolCall]) -> Finish | None:
        """How the run ends with a turn whose calls are all answered; None = it goes on.

        Of several results the first that fits counts.
        """
        submitted = [call for call in calls if call.name == SUBMIT_RESULT]
        if self._run.spec.output_schema is None or not submitted:
            return None
        unfit: UnfitOutput | None = None
        for call in submitted:
            output = read_submitted(self._schema, call.arguments)
            if isinstance(output, FittingOutput):
                return accepted(output)
            unfit = unfit or output
        if unfit is None or not self._was_corrected(api):
            return None
        return refused(unfit, submitted[0].arguments)

    def end_of_answer(self, api: Api, end: Finish) -> Finish | Correction:
        """How the run ends with a response that calls nothing and is not recorded yet.

        Args:
            api: Of its thread.
            end: How it would end if any text would do.
        """
        output = self._answered(end)
        if output is None or isinstance(output, FittingOutput):
            return end if output is None else accepted(output)
        if self._was_corrected(api, before_last=False):
            return refused(output, end.summary)
        _log.info("output.corrected run=%s agent=%s", self._run.key.run_id, self._run.spec.agent)
        return Correction(_sent_back(output))

    def end_of_recorded_answer(self, end: Finish) -> Finish:
        """The same for the last entry of the thread; one that was sent back is not the last."""
        match self._answered(end):
            case None:
                return end
            case FittingOutput() as output:
                return accepted(output)
            case UnfitOutput() as output:
                return refused(output, end.summary)

    def _answered(self, end: Finish) -> FittingOutput | UnfitOutput | None:
        """What the answer is worth; None = any text will do, or the run did not end well."""
        if self._run.spec.output_schema is None or end.state is not SubagentState.SUCCEEDED:
            return None
        return read_answer(self._schema, end.summary or "")

    @property
    def _schema(self) -> Mapping[str, JsonValue]:
        return self._run.spec.output_schema or {}

    def _was_corrected(self, api: Api, *, before_last: bool = True) -> bool:
        """Whether an earlier response of the run was sent back, as nothing but an unfit result is."""
        own = own_responses(api, self._run.thread, self._run.iteration)
        return any(self._was_sent_back(api, entry) for entry in islice(own, int(before_last), None))

    def _was_sent_back(self, api: Api, entry: str) -> bool:
        calls = calls_of(api, entry)
        if not calls:
            return isinstance(read_answer(self._schema, last_text(api, entry)), UnfitOutput)
        submitted = [call for call in calls if call.name == SUBMIT_RESULT]
        read = [read_submitted(self._schema, call.arguments) for call in submitted]
        return bool(read) and all(isinstance(output, UnfitOutput) for output in read)


def accepted(output: FittingOutput) -> Finish:
    """How a run ends whose result fits."""
    return Finish(SubagentState.SUCCEEDED, summary=output.text, natural=True, payload=output.payload)


def refused(output: UnfitOutput, text: str | None) -> Finish:
    """How a run ends whose result does not fit, and will not be mended.

    Args:
        text: What it answered.
    """
    message = f"the result does not fit the output schema: {'; '.join(output.problems)}"
    return Finish(SubagentState.FAILED, ErrorClassification.OUTPUT_INVALID, text, message)


def _sent_back(output: UnfitOutput) -> str:
    problems = "\n".join(f"- {problem}" for problem in output.problems)
    return f"This was not accepted as your result:\n{problems}\n{_AGAIN}"
