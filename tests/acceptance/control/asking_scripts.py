"""What models say that ask and answer each other, and what a human sees of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from tests.acceptance.run_rig import RunRig

from retinue.client import SubagentLifecycle
from retinue.contract import PendingRequest, SubagentHandle, partition_of_run
from retinue.store import keys
from retinue.testing import Call, ScriptedRequest, Turn
from retinue.testing.scripts import Script


def script(rig: RunRig, agent: str, word: str) -> Script:
    """What the agent's model says in runs with this word in their goal."""
    return rig.model.script(agent, when=lambda request: word in request.messages[0].text)


def turns(rig: RunRig, agent: str, word: str, *made: Callable[[Any], Turn | str]) -> None:
    """Scripts an agent: each turn is made of the last result, as JSON where it is that."""

    def reply(asked: ScriptedRequest) -> Turn | str:
        text = asked.results[-1].text if asked.results else ""
        try:
            return made[asked.turn](json.loads(text))
        except ValueError:
            return made[asked.turn](text)

    script(rig, agent, word).reply(reply)


def start(task: str) -> Turn:
    return Turn(calls=(Call("run_agent", {"name": "clerk", "task": task, "background": True}),))


def wait(_: Any = None) -> Turn:
    return Turn(calls=(Call("wait_agents"),))


def answer(question_id: str, text: str) -> Turn:
    return Turn(calls=(Call("answer_agent", {"question_id": question_id, "answer": text}),))


def ask(tool: str, question: str) -> Call:
    return Call(tool, {"question": question})


def asked(
    rig: RunRig, lifecycle: SubagentLifecycle, handle: SubagentHandle, count: int = 1
) -> list[PendingRequest]:
    """What is asked of a human, once so much is."""
    waited = lifecycle.wait(handle, timeout_seconds=30, until="asked")
    assert (waited.completed, waited.timed_out) == (False, False), waited
    rig.wait_until(lambda: len(lifecycle.pending(handle)) == count, f"{count} requests")
    return list(lifecycle.pending(handle))


def ran(rig: RunRig, run_id: str, line: str) -> int:
    """How often a tool of a run wrote a line."""
    return sum(entry.startswith(run_id) and entry.endswith(line) for entry in rig.ledger())


def let_expire(rig: RunRig, request: PendingRequest) -> None:
    """Puts the end of a request's time to now."""
    name, (_, _, slot) = keys.record("_", request.run_id) + ":a", request.request_id.rpartition("/")
    raw = str(rig.store.hget(name, slot))
    rig.store.hset(name, slot, re.sub(r'"expires_ms":\d+', '"expires_ms":1', raw, count=1))
    rig.store.zadd(keys.due(partition_of_run(request.run_id)), {keys.member("_", request.run_id): 1})


def tree_of_three(rig: RunRig, word: str, *calls: Call) -> Script:
    """A chief whose boss has a clerk, which counts, makes these calls and then tells what came of them."""
    for agent, below in (("chief", "boss"), ("boss", "clerk")):
        script(rig, agent, word).call("run_agent", {"name": below, "task": word}).then("${results}")
    clerk = script(rig, "clerk", word).call("count", {}).then(Turn(calls=calls))
    return clerk.then("${results}")
