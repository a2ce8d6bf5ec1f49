"""A run's record as it is read back, and how a run is woken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from retinue.contract import TERMINAL_STATES, ErrorClassification, Phase, SubagentState, Usage
from retinue.store.call import text


class WakeUpKind(StrEnum):
    """What a wake-up is for, as Flower shows it; the worker does the same for all: it asks the store."""

    DELEGATE = "delegate"  # a run that was never claimed
    HANDOFF = "handoff"  # a run whose active agent changed
    RESUME = "resume"  # a run that was suspended or handed back

    @property
    def task_name(self) -> str:
        """The Celery task's name."""
        return f"retinue.{self.value}"


class Ending(StrEnum):
    """How a model response ended, as far as the run's own end depends on it."""

    STOP = "stop"  # whole
    LENGTH = "length"  # cut at the model's output limit
    REFUSED = "refused"  # refused by the model or a filter


@dataclass(frozen=True, slots=True)
class WakeUp:
    """A message that is owed to a queued run: Celery carries it, the record is the truth.

    Args:
        tenant: The run's tenant.
        run_id: The run.
        number: Unique within the run, from 1 on; the task id is `<run_id>.<number>`.
        kind: The Celery task.
        agent: The agent's name, shown as the task's name in Flower; "" = the default agent.
        queue: Where the run's wake-ups go.
        priority: kombu's step: 0 resumes, then 3, 6, 9 for high, normal, low launches.
        root_id: The tree's root run.
        parent_id: The parent run, None for a root.
    """

    tenant: str
    run_id: str
    number: int
    kind: WakeUpKind
    agent: str
    queue: str
    priority: int
    root_id: str
    parent_id: str | None


def parse_wake_up(
    tenant: str, reply: Sequence[Any] | None, *, kind: WakeUpKind = WakeUpKind.RESUME
) -> WakeUp | None:
    """The wake-up in a script's reply. A resume goes ahead of launches: priority 0."""
    if not reply:
        return None
    run_id, number, queue, priority, agent, root, parent = (text(word) for word in reply)
    step = int(priority) if kind is WakeUpKind.DELEGATE else 0
    return WakeUp(tenant, run_id, int(number), kind, agent, queue, step, root, parent or None)


_AT_WORK: Final = (Phase.MODEL_CALL, Phase.TOOL_CALL)


@dataclass(frozen=True, slots=True)
class Record:
    """The record of a run. Times are epoch milliseconds of the server's clock; None = not yet, or none."""

    fields: Mapping[str, str]

    def _integer(self, name: str) -> int:
        return int(self.fields.get(name) or 0)

    @property
    def state(self) -> SubagentState:
        return SubagentState(self.fields["st"])

    @property
    def is_terminal(self) -> bool:
        return self.state in TERMINAL_STATES

    @property
    def phase(self) -> Phase:
        phase = Phase(self.fields.get("ph", ""))
        if phase in _AT_WORK and self.fields.get("dr") == self.fields.get("tok", ""):
            return Phase.DRAINING
        return phase

    @property
    def epoch(self) -> int:
        return self._integer("ep")

    def belongs_to(self, epoch: int, token: str) -> bool:
        """Whether the attempt with this fence may write to the run."""
        return self.epoch == epoch and self.fields.get("tok") == token

    @property
    def owner(self) -> str | None:
        return self.fields.get("own") or None

    @property
    def root_id(self) -> str:
        return self.fields["root"]

    @property
    def parent_id(self) -> str | None:
        return self.fields.get("par") or None

    @property
    def path(self) -> str:
        return self.fields["path"]

    @property
    def depth(self) -> int:
        return self._integer("dp")

    @property
    def max_depth(self) -> int:
        return self._integer("mxd")

    @property
    def max_live_children(self) -> int:
        return self._integer("mxc")

    @property
    def max_tree_children(self) -> int | None:
        """Runs that there may ever be below it; None = an older release launched it."""
        return self._integer("mxt") if "mxt" in self.fields else None

    @property
    def max_tool_calls(self) -> int | None:
        """The launch's, and from the first boundary on the effective one; None = no limit."""
        return self._integer("mtc") if "mtc" in self.fields else None

    @property
    def agent(self) -> str:
        return self.fields.get("ag", "")

    @property
    def document(self) -> str | None:
        """Digest of the Agent Spec document that the agent stands in; None = workers have the agent."""
        return self.fields.get("doc") or None

    @property
    def queue(self) -> str:
        return self.fields["q"]

    @property
    def session_id(self) -> str:
        return self.fields["sess"]

    @property
    def thread_id(self) -> str:
        return self.fields["th"]

    @property
    def request_digest(self) -> str:
        return self.fields["rd"]

    @property
    def iteration(self) -> int:
        """Of the last boundary passed."""
        return self._integer("it")

    @property
    def recorded_iteration(self) -> int:
        """Of the last model response recorded."""
        return self._integer("im")

    @property
    def handoffs(self) -> int:
        """How often it went from one agent to another."""
        return self._integer("ho")

    @property
    def continues(self) -> str | None:
        """The run whose conversation it goes on with."""
        return self.fields.get("cn") or None

    @property
    def replays(self) -> str | None:
        """The run whose dead letter it was launched from."""
        return self.fields.get("ry") or None

    @property
    def follows_suspension(self) -> bool:
        """Whether the last claim was the first since the run left a worker with all it had begun answered."""
        return self.fields.get("se") == str(self.epoch - 1)

    @property
    def ending(self) -> Ending:
        """Of the last model response recorded."""
        return Ending(self.fields.get("fr") or Ending.STOP)

    @property
    def max_iterations(self) -> int:
        return self._integer("mi")

    @property
    def pending(self) -> int:
        """How much the run itself asks of a human now."""
        return self._integer("na")

    @property
    def tells(self) -> str:
        """Who is to be told of its end: the letters of `outbox.Told`."""
        return self.fields.get("tl", "")

    @property
    def wakeup(self) -> int:
        return self._integer("wk")

    @property
    def deadline_ms(self) -> int | None:
        return self._integer("dl") or None

    @property
    def awaits_human(self) -> bool:
        """Whether it, or a run below it, asks a human, so that its deadline stands still."""
        return self._integer("hw") > 0

    def time_left_ms(self, now_ms: int) -> int | None:
        """Until its deadline; None = it has none, never below 0. It stands still while a human is awaited."""
        deadline = self._integer("dl")
        until = min(self._integer("hs"), now_ms) if self.awaits_human else now_ms
        return max(0, deadline - until) if deadline else None

    @property
    def created_ms(self) -> int:
        return self._integer("cr")

    @property
    def started_ms(self) -> int | None:
        return self._integer("sa") or None

    @property
    def updated_ms(self) -> int:
        return self._integer("up")

    @property
    def finished_ms(self) -> int | None:
        return self._integer("fi") or None

    @property
    def classification(self) -> ErrorClassification | None:
        value = self.fields.get("cls")
        return ErrorClassification(value) if value else None

    @property
    def spec_digest(self) -> str | None:
        return self.fields.get("dg") or None

    @property
    def model(self) -> str | None:
        """The pinned one; None before the first boundary."""
        return self.fields.get("md") or None

    @property
    def provider(self) -> str | None:
        """The pinned one; None before the first boundary."""
        return self.fields.get("pv") or None

    @property
    def is_budgeted(self) -> bool:
        """Whether it, or a run above it, has a budget."""
        return "bk" in self.fields

    @property
    def calls_allowed(self) -> int | None:
        """How many calls of the last response recorded the budgets above it allow; None = all."""
        iteration, _, allowed = self.fields.get("bta", "").partition(":")
        return int(allowed) if allowed and int(iteration) == self.recorded_iteration else None

    @property
    def account(self) -> dict[str, str]:
        """Its own budget's account, as a status and a result read it; empty = it has none."""
        return {name[2:]: value for name, value in self.fields.items() if name.startswith("b:")}

    @property
    def usage(self) -> Usage:
        """What the run has used so far, without its children."""
        return self._used("")

    @property
    def tree_usage(self) -> Usage:
        """What the run and all below it have used so far."""
        return self.ended_tree_usage + self._used("y")

    @property
    def ended_tree_usage(self) -> Usage:
        """As `tree_usage`, without what runs below it have used after its end."""
        return self.usage + self._used("x")

    def _used(self, lead: str) -> Usage:
        """The sums that stand in fields of this lead; "" = the run's own."""
        own, tokens = not lead, lead or "t"
        known = not self._integer(lead + "unk")
        return Usage(
            model_calls=self.recorded_iteration if own else self._integer(lead + "mc"),
            retries=self._integer(lead + "rt"),
            input_tokens=self._integer(tokens + "in"),
            output_tokens=self._integer(tokens + "out"),
            cached_tokens=self._integer(tokens + "ca"),
            reasoning_tokens=self._integer(tokens + "re"),
            tool_calls=self._integer(lead + "tc"),
            tools=self._by_tool(lead + "t:"),
            tool_seconds={name: ms / 1000 for name, ms in self._by_tool(lead + "d:").items()},
            waiting_seconds=self._integer(lead + "wms") / 1000,
            attempts=bool(self.started_ms) + self._integer("al") if own else self._integer(lead + "at"),
            cost_usd=self._integer(lead + "usd") / 1_000_000 if known else None,
        )

    def _by_tool(self, lead: str) -> dict[str, int]:
        return {
            name.removeprefix(lead): int(count)
            for name, count in self.fields.items()
            if name.startswith(lead)
        }
