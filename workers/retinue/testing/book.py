"""Finds the script, the turn and the fault for a request."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from retinue.testing.faults import ErrorReply, Fault, bad_request
from retinue.testing.request import ScriptedRequest
from retinue.testing.scripts import Call, CountedFault, FaultScope, Script, ScriptError, Turn

_PLACEHOLDER = re.compile(r"\$\{(user|results|model|turn)\}")
_SYSTEMS_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class Selection:
    """How a request is answered: a turn, a fault that strikes first or instead, or a problem."""

    script: str | None
    turn: int
    reply: Turn
    fault: Fault | None = None
    problem: str | None = None

    @property
    def fault_name(self) -> str | None:
        """What a record calls the scripted fault; a refused request has a problem, no fault."""
        if self.fault is None or self.problem is not None:
            return None
        if isinstance(self.fault, ErrorReply):
            return self.fault.code or str(self.fault.status)
        return type(self.fault).__name__


class ScriptBook:
    """All scripts of a server. Lookups run on one thread; scripts may be added from another.

    The most specific script wins: an agent's with a condition, an agent's, a condition's alone;
    among equals the first declared.
    """

    def __init__(self) -> None:
        self._by_agent: dict[str, tuple[Script, ...]] = {}
        self._conditional: tuple[Script, ...] = ()
        self._faults: tuple[CountedFault, ...] = ()
        self._struck: Counter[tuple[int, str]] = Counter()
        self._agent_of_system: dict[str, str | None] = {}

    def add(self, script: Script, *, agent: str | None) -> Script:
        """Add a script, for the agent whose name the system prompt holds, or for its condition alone."""
        if agent is None:
            self._conditional = (*self._conditional, script)
        else:
            self._by_agent[agent] = (*self._by_agent.get(agent, ()), script)
            self._agent_of_system = {}
        return script

    def add_fault(self, fault: CountedFault) -> None:
        """Let the first requests of any script fail."""
        self._faults = (*self._faults, fault)

    def select(self, request: ScriptedRequest) -> Selection:
        """Decide the answer; what has no answer becomes a 400 that says why."""
        agent = self.agent_of(request.system)
        script = None
        try:
            script = self._script(agent, request)
            if script is None:
                raise ScriptError(
                    f"no script for this request; scripts exist for {self._names()}. "
                    'An agent is recognised by "You are <name>", or its name, in the system prompt'
                )
            return self._play(script, request)
        except Exception as error:  # a predicate or a reply function is the test author's code
            code = "script_error" if isinstance(error, ScriptError) else "script_function_failed"
            problem = f"{code}: {error!r}" if code == "script_function_failed" else str(error)
            name = script.name if script else agent
            return Selection(name, request.turn, Turn(), bad_request(problem, code), problem)

    def refuse(self, request: ScriptedRequest, problem: str) -> Selection:
        """Answer 400 with a reason; no script advances and no fault is used up."""
        agent = self.agent_of(request.system)
        return Selection(agent, request.turn, Turn(), bad_request(problem), problem)

    def agent_of(self, system: str) -> str | None:
        """The agent that a system prompt speaks to.

        "You are <name>" decides; failing that, the name that stands first in the text, as a whole
        word. Longer names win over their own beginnings.
        """
        if system not in self._agent_of_system:
            if len(self._agent_of_system) >= _SYSTEMS_REMEMBERED:
                self._agent_of_system = {}
            ranked = [rank for name in self._by_agent if (rank := _rank(name, system))]
            self._agent_of_system[system] = min(ranked)[-1] if ranked else None
        return self._agent_of_system[system]

    def _script(self, agent: str | None, request: ScriptedRequest) -> Script | None:
        own = self._by_agent.get(agent, ()) if agent is not None else ()
        ordered = [s for s in own if s.when] + [s for s in own if not s.when] + list(self._conditional)
        return next((s for s in ordered if s.when is None or s.when(request)), None)

    def _play(self, script: Script, request: ScriptedRequest) -> Selection:
        position = script.position(request)
        if not 0 <= position < len(script.steps):
            raise ScriptError(
                f"script {script.name!r} has {len(script.steps)} turn(s) and this request is for turn "
                f"{position + 1}; add .then(...) or .repeat_last()"
            )
        step = script.steps[position]
        fault = self._strike((*self._faults, *script.faults, *step.faults), request)
        if isinstance(fault, ErrorReply):
            return Selection(script.name, position, Turn(), fault)
        reply = step.reply(request) if callable(step.reply) else step.reply
        turn = Turn(text=reply) if isinstance(reply, str) else reply
        return Selection(script.name, position, _fill(turn, script.name, request), fault)

    def _strike(self, faults: tuple[CountedFault, ...], request: ScriptedRequest) -> Fault | None:
        """The first fault that has not struck often enough; counts it."""
        for counted in faults:
            if counted.times is None:
                return counted.fault
            history = _digest(request.body) if counted.scope is FaultScope.EACH_HISTORY else ""
            # The fault objects live as long as the book, so their ids are unique.
            key = (id(counted), history)
            if self._struck[key] < counted.times:
                self._struck[key] += 1
                return counted.fault
        return None

    def _names(self) -> str:
        names = [*self._by_agent, *(script.name for script in self._conditional)]
        return ", ".join(sorted(names)) or "nobody"


def _rank(name: str, system: str) -> tuple[int, int, int, str] | None:
    word = rf"(?<![\w-]){re.escape(name)}(?![\w-])"
    addressed = re.search(rf"\byou are (?:the |an? )?[\"'`*]*{word}", system, re.IGNORECASE)
    if addressed:
        return (0, addressed.start(), -len(name), name)
    found = re.search(word, system)
    return (1, found.start(), -len(name), name) if found else None


def _fill(turn: Turn, script: str, request: ScriptedRequest) -> Turn:
    """Replace placeholders and give every call an id."""

    def fill(value: Any) -> Any:
        if isinstance(value, str):
            return _PLACEHOLDER.sub(lambda found: _value(found.group(1), request), value)
        if isinstance(value, Mapping):
            return {key: fill(item) for key, item in cast(Mapping[str, Any], value).items()}
        return [fill(item) for item in cast(list[Any], value)] if isinstance(value, list | tuple) else value

    calls = tuple(
        Call(call.tool, fill(call.arguments), call.id or _call_id(script, request, index))
        for index, call in enumerate(turn.calls)
    )
    return replace(turn, text=fill(turn.text), calls=calls)


def _value(placeholder: str, request: ScriptedRequest) -> str:
    if placeholder == "user":
        return request.last_user
    if placeholder == "results":
        return "; ".join(result.text for result in request.last_results)
    return request.model if placeholder == "model" else str(request.turn)


def _call_id(script: str, request: ScriptedRequest, index: int) -> str:
    seed = f"{script}\0{request.turn}\0{index}\0{request.last_user}"
    return f"call_{hashlib.sha256(seed.encode(errors='replace')).hexdigest()[:24]}"


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
