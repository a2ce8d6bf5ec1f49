"""Callers at the door of the HTTP API: is the key good, and is there room for another of its requests?"""

from __future__ import annotations

import hmac
import json
from dataclasses import dataclass
from typing import Any

from retinue.store import keys
from retinue.store.call import ScriptCall, text, unexpected
from retinue.store.operations.api_keys import ApiKey, ShownKey
from retinue.store.scripts import script


@dataclass(frozen=True, slots=True)
class Admitted:
    """A genuine key, one request of whose holder was asked for.

    Args:
        key: The key.
        wait_ms: Until there is room for the request, which was not counted; 0 = it was.
    """

    key: ApiKey
    wait_ms: int = 0


def admit_key(shown: ShownKey, *, requests_per_minute: int) -> ScriptCall[Admitted | None]:
    """Looks a key up and counts one request of its holder, in one step.

    Args:
        requests_per_minute: 0 = no limit.

    Returns:
        A call that answers None alike for a key that is unknown, malformed, revoked or has expired.
    """

    def parse(reply: Any) -> Admitted | None:
        match text(reply[0]):
            case "NONE":
                return None
            case "OK" | "WAIT":
                raw = text(reply[1])
                key = ApiKey.from_row(shown.key_id, raw)
                # The script has compared them too, lest a stranger uses up the holder's requests.
                if not hmac.compare_digest(str(json.loads(raw)["digest"]), shown.digest):
                    return None
                return Admitted(key, int(reply[2]) if len(reply) > 2 else 0)
            case _:
                raise unexpected("admit_key", reply)

    argv = (keys.API_KEYS, shown.key_id, shown.digest, requests_per_minute)
    return ScriptCall(script("admit_key"), (keys.request_rate(shown.key_id),), argv, parse)


def admit(whom: str, *, requests_per_minute: int) -> ScriptCall[int]:
    """Counts one request of a caller who proved by itself who it is.

    Args:
        whom: 1 to 80 characters that no other caller has.

    Returns:
        A call that answers ms until there is room for the request; 0 = it was counted.
    """
    return ScriptCall(script("admit"), (keys.request_rate(whom),), (requests_per_minute,), int)
