"""The calculators of the Agent Spec runtimes' own tests: three made-up operations, an agent for each.

fooza(a, b) = 2a + 3b - 1, bwip(a, b) = a - b + 1, zbuk(a, b) = a + 2b. A question such as
`fooza(bwip(7, 3), 2)` is worked from the inside out, each step by the agent that has the tool.
"""

from __future__ import annotations

import re

from pyagentspec.swarm import HandoffMode, Swarm
from tests.acceptance.patterns.groups import ARITHMETIC, Case, hand_off, send, swarm, users_of

from retinue.testing import Call, ScriptedRequest, Turn

OPERATIONS = tuple(ARITHMETIC)
_STEP = re.compile(r"(fooza|bwip|zbuk)\((-?\d+), (-?\d+)\)")
QUESTIONS = {
    "fooza(4, 5)": 22,
    "zbuk(bwip(7, 3), 4)": 13,
    "zbuk(2, 6)": 14,
    "bwip(fooza(0, 1), zbuk(5, 5))": -12,
    "21 + 1": 22,
}


def calculators(case: Case, mode: HandoffMode) -> Swarm:
    """A swarm of a front desk and the three calculators, each of whom reaches every other.

    Their scripts do what a model would: solve the next step that is theirs, and pass on any other.
    """
    front = case.agent("front")
    experts = {name: case.agent(name, tools=[ARITHMETIC[name]]) for name in OPERATIONS}
    edges = [(front, expert) for expert in experts.values()]
    edges += [(a, b) for a in experts.values() for b in experts.values() if a is not b]
    edges += [(expert, front) for expert in experts.values()]
    case.says("front").reply(lambda asked: _front(asked, mode))
    for name in OPERATIONS:
        case.says(name).reply(lambda asked, name=name: _expert(asked, name, mode))
    return swarm(front, *edges, mode=mode, name="calculators")


def _front(asked: ScriptedRequest, mode: HandoffMode) -> Turn | str:
    question = _reduced(asked)
    step = _STEP.search(question)
    if step is None:
        return _plain(question)
    if mode is HandoffMode.OPTIONAL:
        # As a model is told to: whoever can answer directly takes the conversation over.
        return Turn(calls=(hand_off(step[1]),))
    return _pass_on(step, mode)


def _expert(asked: ScriptedRequest, own: str, mode: HandoffMode) -> Turn | str:
    question = _reduced(asked)
    step = _STEP.search(question)
    if step is None:
        return _plain(question)
    if step[1] == own:
        return Turn(calls=(Call(own, {"a": int(step[2]), "b": int(step[3])}),))
    return _pass_on(step, mode)


def _pass_on(step: re.Match[str], mode: HandoffMode) -> Turn:
    call = hand_off(step[1]) if mode is HandoffMode.ALWAYS else send(step[1], step[0])
    return Turn(calls=(call,))


def _reduced(asked: ScriptedRequest) -> str:
    """The question with every step that the history has answered replaced by its number."""
    question = users_of(asked)[0]
    for result in asked.results:
        step = _STEP.search(question)
        if step is not None and re.fullmatch(r"-?\d+", result.text):
            question = question.replace(step[0], result.text, 1)
    return question


def _plain(question: str) -> str:
    numbers = [int(part) for part in question.split(" + ")]
    return str(sum(numbers))
