"""How the outcome of a run is printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retinue.cli.output import document, note, say

if TYPE_CHECKING:
    from retinue.contract import SubagentResult


def print_result(result: SubagentResult, *, as_json: bool) -> None:
    """The last text on standard output; on standard error how the run ended, unless it succeeded."""
    if as_json:
        document(result.to_dict())
        return
    if result.summary:
        say(result.summary)
    if result.truncated:
        note("(cut: --full prints the whole text)")
    if not result.ready:
        note(f"no result: {result.error_classification}")
    elif result.error_classification is not None or result.error_message:
        reason = f" {result.error_classification}" if result.error_classification else ""
        message = f": {result.error_message}" if result.error_message else ""
        note(f"{result.terminal_state}{reason}{message}")
