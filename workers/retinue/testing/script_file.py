"""Scripts as JSON data, for a server that runs as its own process.

    {
      "scripts": [
        {
          "agent": "researcher",
          "turns": [
            {"calls": [{"tool": "search", "arguments": {"query": "${user}"}}]},
            {"text": "${results}", "faults": [{"fault": "rate_limited", "retry_after_s": 1, "times": 2}]}
          ]
        },
        {"agent": "writer", "when": {"user_contains": "poem"}, "turns": ["Roses are red."]},
        {"name": "anyone", "when": {}, "turns": ["ok"], "repeat_last": true}
      ],
      "faults": [{"fault": "unavailable", "times": 1}]
    }

A script has `agent`, or `name` and `when`. An agent is recognised by "You are <name>", or its name, in the
system prompt. A script has further `turns`, `count` (a TurnCount), `repeat_last` and `faults` (for any of
its turns). A turn is a text, or the fields of a Turn and `faults`; `when` has the fields of a Match. A fault
names a function or class of faults.py in snake case (`rate_limited`, `cut_stream`, `error_reply`), its
arguments beside it, `times` (null = always) and `scope` (a FaultScope).
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
    validate_call,
)

from retinue.testing import faults
from retinue.testing.book import ScriptBook
from retinue.testing.scripts import CountedFault, Match, Script, ScriptError, Turn, TurnCount

_FAULTS: dict[str, Callable[..., faults.Fault]] = {
    "rate_limited": faults.rate_limited,
    "quota_exhausted": faults.quota_exhausted,
    "server_error": faults.server_error,
    "unavailable": faults.unavailable,
    "overloaded": faults.overloaded,
    "context_too_long": faults.context_too_long,
    "bad_request": faults.bad_request,
    "unauthorized": faults.unauthorized,
    "error_reply": faults.ErrorReply,
    "drop_connection": faults.DropConnection,
    "slow_start": faults.SlowStart,
    "slow_stream": faults.SlowStream,
    "cut_stream": faults.CutStream,
    "truncated_body": faults.TruncatedBody,
    "wrong_json": faults.WrongJson,
    "stream_error": faults.StreamError,
    "endless_stream": faults.EndlessStream,
}


def add_scripts(book: ScriptBook, data: Mapping[str, Any]) -> None:
    """Add everything that a script file declares.

    Raises:
        ScriptError: the data has another form; the message says where and what was expected.
    """
    try:
        form = _FileForm.model_validate(data)
    except ValidationError as error:
        found = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise ScriptError(f"not a script file: {found}") from None
    for script in form.scripts:
        book.add(script.build(), agent=script.agent)
    for fault in form.faults:
        book.add_fault(fault)


def _read_fault(value: object) -> dict[str, object]:
    """Build the fault; how often it strikes is left to the validation of CountedFault."""
    given = dict(cast(Mapping[str, Any], value)) if isinstance(value, Mapping) else {}
    counted = {name: given.pop(name) for name in ("times", "scope") if name in given}
    name = given.pop("fault", None)
    build = _FAULTS.get(name) if isinstance(name, str) else None
    if build is None:
        raise ValueError(f"fault {name!r} is not one of {', '.join(sorted(_FAULTS))}")
    try:
        inspect.signature(build).bind(**given)
    except TypeError as error:
        raise ValueError(f"fault {name}: {error}") from None
    made = (
        TypeAdapter(build).validate_python(given)
        if isinstance(build, type)
        else validate_call(build)(**given)
    )
    return {"fault": made, **counted}


_Faults = list[Annotated[CountedFault, BeforeValidator(_read_fault)]]


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _StepForm(_Form):
    turn: Turn
    faults: _Faults = Field(default_factory=list[CountedFault])

    @model_validator(mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        """A text stands for a turn; a mapping holds the turn's fields with `faults` among them."""
        if isinstance(value, str):
            return {"turn": {"text": value}}
        if not isinstance(value, Mapping):
            return value
        fields = dict(cast(Mapping[str, Any], value))
        return {"faults": fields.pop("faults", []), "turn": fields}


class _ScriptForm(_Form):
    agent: str | None = None
    name: str | None = None
    when: Match | None = None
    count: TurnCount = TurnCount.TOTAL
    turns: list[_StepForm]
    repeat_last: bool = False
    faults: _Faults = Field(default_factory=list[CountedFault])

    @model_validator(mode="after")
    def _named(self) -> "_ScriptForm":
        if self.agent is None and (self.name is None or self.when is None):
            raise ValueError("give `agent`, or `name` and `when`")
        return self

    def build(self) -> Script:
        script = Script(self.agent or self.name or "", self.when, self.count)
        for step in self.turns:
            script.then(step.turn)
            for counted in step.faults:
                script.fault(counted.fault, times=counted.times, scope=counted.scope)
        for counted in self.faults:
            script.fault_any_turn(counted.fault, times=counted.times, scope=counted.scope)
        return script.repeat_last() if self.repeat_last else script


class _FileForm(_Form):
    scripts: list[_ScriptForm] = Field(default_factory=list[_ScriptForm])
    faults: _Faults = Field(default_factory=list[CountedFault])
