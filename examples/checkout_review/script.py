"""The team's model for a demonstration without network: it plans by rule and words what the tools found.

Each reply is computed from the request alone, as a real model's is: from the results that stand in it.
"""

from __future__ import annotations

import json
import re
from typing import Any

from retinue.testing import Call, ScriptedRequest, ScriptedServer, Turn, TurnCount

OPEN_WORK = "TODO"
_MODULE = re.compile(r"`([^`]+\.py)`")
_OUTLINED = 2


def add_scripts(server: ScriptedServer) -> None:
    """Teaches a scripted server the three roles, told apart by the tools that a request offers."""
    server.script_where("review-lead", lambda request: "send_message" in request.tools).reply(lead)
    server.script_where(
        "surveyor", lambda request: "count_files" in request.tools, count=TurnCount.SINCE_USER
    ).reply(surveyor)
    server.script_where(
        "code-reader", lambda request: "outline_module" in request.tools, count=TurnCount.SINCE_USER
    ).reply(code_reader)


def lead(request: ScriptedRequest) -> Turn | str:
    """Asks both workers at once, follows up on the largest module, and reports."""
    answers = [result.text for result in request.results_of("send_message")]
    if not answers:
        return Turn(
            text="I ask both workers first.",
            calls=(
                _message(
                    "surveyor", f"How large is the checkout, by language, and where is {OPEN_WORK} left?"
                ),
                _message("code-reader", "Which are the largest Python modules, and what is in them?"),
            ),
        )
    largest = _MODULE.search(answers[1]) if len(answers) > 1 else None
    if len(answers) == 2 and largest is not None:
        return Turn(
            text="One more question about the largest module.",
            calls=(_message("code-reader", f"List the classes and functions of `{largest[1]}`."),),
        )
    return "\n\n".join(["Review of the checkout", *answers])


def surveyor(request: ScriptedRequest) -> Turn | str:
    """Counts and searches, then says what was found."""
    counted, searched = _found(request, "count_files"), _found(request, "search_text")
    if not counted or not searched:
        return Turn(calls=(Call("count_files", {}), Call("search_text", {"text": OPEN_WORK})))
    size, open_work = counted[-1], searched[-1]
    languages = ", ".join(
        f"{name} {entry['lines']:,} lines in {entry['files']} files"
        for name, entry in list(size["languages"].items())[:4]
    )
    return (
        f"{size['checkout']} has {size['lines']:,} lines in {size['files']:,} files: {languages}. "
        f"{open_work['text']} stands in {open_work['matches']} line(s)."
    )


def code_reader(request: ScriptedRequest) -> Turn | str:
    """Outlines the module that it is asked about, or else the largest ones."""
    asked = _MODULE.search(request.last_user)
    outlines = {outline["path"]: outline for outline in _found(request, "outline_module")}
    if asked is not None:
        outline = outlines.get(asked[1])
        if outline is None or request.turn_since_user == 0:
            return Turn(calls=(Call("outline_module", {"path": asked[1]}),))
        return _in_detail(outline)
    sizes = _found(request, "largest_modules")
    if not sizes:
        return Turn(calls=(Call("largest_modules", {}),))
    wanted = [entry["path"] for entry in sizes[-1][:_OUTLINED]]
    missing = [path for path in wanted if path not in outlines]
    if missing:
        return Turn(calls=tuple(Call("outline_module", {"path": path}) for path in missing))
    lines = {entry["path"]: entry["lines"] for entry in sizes[-1]}
    parts = [
        f"`{path}` ({lines[path]} lines, {len(outlines[path]['classes'])} classes, "
        f"{len(outlines[path]['functions'])} functions): {outlines[path]['purpose'] or 'no docstring'}"
        for path in wanted
    ]
    return "The largest Python modules are\n" + "\n".join(f"- {part}" for part in parts)


def _in_detail(outline: dict[str, Any]) -> str:
    classes = [f"{name} ({len(methods)} methods)" for name, methods in outline["classes"].items()]
    return (
        f"`{outline['path']}` has the classes {', '.join(classes) or '(none)'} "
        f"and the functions {', '.join(outline['functions']) or '(none)'}."
    )


def _message(recipient: str, message: str) -> Call:
    return Call("send_message", {"recipient": recipient, "message": message})


def _found(request: ScriptedRequest, tool: str) -> list[Any]:
    """What a tool answered so far; errors, which are no JSON, are left out."""
    found: list[Any] = []
    for result in request.results_of(tool):
        try:
            found.append(json.loads(result.text))
        except ValueError:
            continue
    return found
