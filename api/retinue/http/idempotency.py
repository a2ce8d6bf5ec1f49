"""The header Idempotency-Key: a request that is sent again, from wherever, is answered as the first time.

Three things make it so. What is known of a request stands in the store, so any process may be asked. Its runs
have ids that are derived from a seed kept there, so an attempt that dies between launch and answer costs
nothing: the next one finds its runs. And an answer is kept for 24 h.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import Depends, Header, Request
from starlette.responses import Response

from retinue.client import AsyncSubagentLifecycle
from retinue.client.facade.async_seeded import SeededLifecycle
from retinue.client.launching.seed import LaunchSeed
from retinue.contract import ErrorCode, RetinueError, SubagentLifecycleError
from retinue.http.access import Caller, SomeCaller
from retinue.http.problems import Problem, problem_of
from retinue.http.service import Service, service_of
from retinue.store.operations.idempotency import (
    Answered,
    Begun,
    Outcome,
    Refused,
    begin_request,
    end_request,
    place,
)

HEADER: Final = "Idempotency-Key"
REPLAYED_HEADER: Final = "Idempotent-Replayed"
_KEY: Final = re.compile(r"[\x20-\x7e]{1,255}", re.ASCII)
_KEPT_HEADERS: Final = ("location",)

Facades = Callable[[str], AsyncSubagentLifecycle]
"""Makes the facade that launches for a session."""


@dataclass(frozen=True, slots=True)
class Once:
    """A request that launches or decides something, and that may bear an idempotency key.

    Args:
        service: Of the process.
        caller: Who asks.
        request: What is asked.
        key: As it was sent. None = each request is a new one.
    """

    service: Service
    caller: Caller
    request: Request
    key: str | None

    async def answer(self, work: Callable[[Facades], Awaitable[Response]]) -> Response:
        """The answer to the request, which is worked for unless it is known already.

        Args:
            work: Makes the answer. Roots it launches with a facade that it makes by session id, in one call;
                what else it does must be harmless when it is done again.

        Raises:
            Problem: IDEMPOTENCY_CONFLICT, IDEMPOTENCY_IN_FLIGHT, or what is wrong with the key.
            SubagentLifecycleError: From `work`. Unless it is LAUNCH_UNKNOWN the key is free again.
        """
        if self.key is None:
            return await work(lambda session_id: self.service.lifecycle(self.caller.tenant, session_id))
        at, attempt = self._place(), secrets.token_hex(8)
        store = self.service.connections().store
        begun = await store.run(
            begin_request(
                at, fingerprint=await self._fingerprint(), attempt=attempt, seed=secrets.token_hex(16)
            )
        )
        match begun:
            case Answered(answer=answer):
                return _replayed(answer)
            case Refused():
                raise _refusal(begun)
            case Begun():
                return await self._work(work, begun, at, attempt)

    async def _work(
        self, work: Callable[[Facades], Awaitable[Response]], begun: Begun, at: str, attempt: str
    ) -> Response:
        seed = LaunchSeed(begun.seed, begun.begun_ms / 1000, begun.is_repeat)
        try:
            response = await work(lambda session_id: self._seeded(session_id, seed))
        except Exception as error:
            await self._end(at, attempt, Outcome.UNDONE if _did_nothing(error) else Outcome.UNKNOWN)
            raise
        await self._end(at, attempt, Outcome.DONE, _kept(response))
        return response

    async def _end(self, at: str, attempt: str, outcome: Outcome, answer: str = "") -> None:
        # If the store has gone away, the answer stands all the same: whoever asks again finds the runs.
        with suppress(RetinueError):
            call = end_request(at, attempt=attempt, outcome=outcome, answer=answer)
            await self.service.connections().store.run(call)

    def _seeded(self, session_id: str, seed: LaunchSeed) -> AsyncSubagentLifecycle:
        return SeededLifecycle(session_id, seed, tenant=self.caller.tenant, settings=self.service.settings)

    def _place(self) -> str:
        route = self.request.scope["route"].path
        return place(self.caller.tenant, self.caller.whom, str(route), self.key or "")

    async def _fingerprint(self) -> str:
        body = await self.request.body()
        # The same values in another order, or with other blanks, ask for the same.
        with suppress(ValueError, RecursionError):
            body = json.dumps(json.loads(body), sort_keys=True, separators=(",", ":")).encode()
        url = self.request.url
        return hashlib.sha256(f"{url.path}?{url.query}\0".encode() + body).hexdigest()


def _once(
    request: Request,
    caller: SomeCaller,
    key: Annotated[
        str | None,
        Header(
            alias=HEADER,
            description="1 to 255 printable ASCII characters. The same key with the same body is answered as "
            "the first time, for 24 h, and starts nothing anew.",
            examples=["3f1c0c1e-order-9001"],
        ),
    ] = None,
) -> Once:
    if key is not None and _KEY.fullmatch(key) is None:
        raise Problem(
            ErrorCode.INVALID_REQUEST,
            422,
            "is empty, too long, or has other than printable ASCII characters",
            field=HEADER,
            limit="1 to 255 printable ASCII characters",
            mend="use a UUID, or the id of what the run is for",
        )
    return Once(service_of(request), caller, request, key)


Idempotent = Annotated[Once, Depends(_once)]
"""For routes that launch, or whose repeat would be answered differently: they have `Once.answer` do so."""


def _did_nothing(error: Exception) -> bool:
    """Whether a failed attempt surely launched nothing."""
    if isinstance(error, SubagentLifecycleError):
        return error.code is not ErrorCode.LAUNCH_UNKNOWN
    return problem_of(error).status < 500


def _kept(response: Response) -> str:
    headers = {name: response.headers[name] for name in _KEPT_HEADERS if name in response.headers}
    kept = {
        "status": response.status_code,
        "headers": headers,
        "media_type": response.media_type,
        "body": bytes(response.body).decode(),
    }
    return json.dumps(kept)


def _replayed(answer: str) -> Response:
    kept: dict[str, Any] = json.loads(answer)
    headers = {**kept["headers"], REPLAYED_HEADER: "true"}
    return Response(kept["body"], kept["status"], headers, kept["media_type"])


def _refusal(why: Refused) -> Problem:
    if why is Refused.BUSY:
        return Problem(
            "IDEMPOTENCY_IN_FLIGHT",
            409,
            "a request with this key is being answered",
            field=HEADER,
            mend="send the same request again a little later",
            headers={"Retry-After": "1"},
        )
    return Problem(
        "IDEMPOTENCY_CONFLICT",
        422,
        "was used for another request",
        field=HEADER,
        limit="one request for 24 h",
        mend="use a new key, or send the same body",
    )
