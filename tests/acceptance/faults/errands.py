"""What a helper does, whoever sends it: it books something and looks something up."""

from __future__ import annotations

from retinue.testing.request import ScriptedRequest
from retinue.testing.scripts import Call, Turn


def helper(asked: ScriptedRequest) -> Turn | str:
    """What a helper's model says, whatever the goal."""
    goal = asked.messages[0].text
    if asked.turn == 0:
        return calls(use("book", f"{goal}.e"), use("look", f"{goal}.f"))
    return ", ".join(result.text for result in asked.results)


def helper_answer(goal: str) -> list[str]:
    """What a helper says in the end, word by word."""
    return [f"booked {goal}.e", f"saw {goal}.f"]


def calls(*them: Call) -> Turn:
    """A turn with nothing but calls."""
    return Turn(calls=them)


def call(name: str, /, **arguments: object) -> Call:
    """A call; all bear the same provider's id."""
    return Call(name, arguments, id="call")


def use(name: str, line: str) -> Call:
    """A call of one of the desk's tools."""
    return call(name, line=line)
