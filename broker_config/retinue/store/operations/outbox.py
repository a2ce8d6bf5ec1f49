"""The outbox: ended runs of which someone is still to be told, at least once.

Whatever ends a run puts its letter out in the same step. Whoever tells takes the letter, tells, and then says
that it is told: a process that dies in between leaves it for the next, under the same run id.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from retinue.contract import partition_of_run
from retinue.store import keys
from retinue.store.call import CommandCall, RunKey, ScriptCall, mapping, text, texts, unexpected
from retinue.store.record import Record
from retinue.store.scripts import script


class Told(StrEnum):
    """Who is to be told of a run's end."""

    TASK = "d"  # the application's task that its launch names in `on_done`
    HOOKS = "s"  # hooks of a worker
    WEBHOOKS = "w"  # endpoints of its tenant, and the one that its launch names in `webhook`


@dataclass(frozen=True, slots=True)
class Letter:
    """An ended run.

    Args:
        run: Which.
        record: As it was at its end.
        request_json: As launched.
    """

    run: RunKey
    record: Record
    request_json: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class NotTaken:
    """There is nothing to tell here and now. `reason`: HELD (another tells, or has told) or NOT_CAPABLE."""

    reason: str


def take(
    run: RunKey, whom: Told, *, token: str, held_ms: int, capable: str = ""
) -> ScriptCall[Letter | NotTaken]:
    """Takes the letter of an ended run, to tell of it.

    Args:
        whom: Who is to be told.
        token: Random; a repeat under it gets the same answer.
        held_ms: How long nobody else gets it.
        capable: The agents whose runs may be told of here, as `running.capability` writes them; "" = any.
    """

    def parse(reply: Any) -> Letter | NotTaken:
        match text(reply[0]):
            case "TAKEN":
                return Letter(run, Record(mapping(reply[1])), text(reply[2]))
            case "HELD" | "NOT_CAPABLE" as reason:
                return NotTaken(reason)
            case _:
                raise unexpected("take_out", reply)

    return _on_letter("take_out", run, (whom.value, token, held_ms, capable), parse)


def told(run: RunKey, whom: Told) -> ScriptCall[None]:
    """Says that someone was told of a run's end; a repeat changes nothing."""

    def parse(reply: Any) -> None:
        if text(reply[0]) != "OK":
            raise unexpected("told", reply)

    return _on_letter("told", run, (whom.value,), parse)


def read_outbox(partition: int, whom: Told, *, now_ms: int, skip: int, most: int) -> CommandCall[list[str]]:
    """The members of ended runs that nobody holds, longest waiting first.

    Args:
        now_ms: Of the server's clock.
        skip: So many of them are passed over.
        most: Longest answer.
    """
    key = keys.outbox(partition, whom.value)
    return CommandCall(("ZRANGEBYSCORE", key, "-inf", now_ms, "LIMIT", skip, most), texts)


def _on_letter(name: str, run: RunKey, argv: tuple[str | int, ...], parse: Any) -> ScriptCall[Any]:
    partition_prefix = keys.partition_prefix(partition_of_run(run.run_id))
    head = (partition_prefix, run.tenant, run.run_id)
    return ScriptCall(script(name), (keys.letter(run.tenant, run.run_id),), (*head, *argv), parse)
