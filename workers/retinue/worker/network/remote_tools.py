"""RemoteTools at work: an HTTP request per call, with the document's retries, to hosts that are allowed."""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import httpx2
from pydantic import JsonValue, SecretStr

from retinue.agents.agentspec.placeholders import placeholders
from retinue.agents.agentspec.remote_spec import RemoteSpec, split_url
from retinue.broker.outbound.target_guard import TargetGuard, TargetRefusedError
from retinue.broker.settings import Settings
from retinue.broker.settings.tools import RemoteToolOverride, RemoteToolSettings
from retinue.contract import RetinueError
from retinue.worker.network.credentials import mask, remote_headers
from retinue.worker.network.remote_exchange import Answer, exchange
from retinue.worker.network.remote_request import RemoteRequest, RemoteRequestError, fill_request, shown
from retinue.worker.network.spec_retry import recoverable, wait_s

_log = logging.getLogger("retinue.worker")
_ERROR_MAX_CHARS: Final = 2_000
_RETRYING_MAX_S: Final = 600.0

GoOn = Callable[[], Awaitable[bool]]
"""Asked before each retry; False = the run is to stop."""


class RemoteToolError(RetinueError):
    """A call that got no good answer; the text is the call's result, and may quote the server."""


class RemoteTools:
    """Calls RemoteTools; one object serves a whole process.

    Args:
        settings: Of this process: what may be reached, limits, and credentials.
        guard: Looks at each address.
        uniform: A random number between two bounds.
        sleep: Waits for the given seconds.
    """

    def __init__(
        self,
        settings: Settings,
        guard: TargetGuard,
        *,
        uniform: Callable[[float, float], float] = random.uniform,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._settings = settings
        self._guard = guard
        self._uniform = uniform
        self._sleep = sleep

    async def call(self, spec: RemoteSpec, arguments: Mapping[str, JsonValue], *, go_on: GoOn) -> str:
        """The server's answer as text; one that is too long is cut, visibly.

        Args:
            spec: The tool's.
            arguments: The call's, by name.
            go_on: Asked before each retry.

        Raises:
            RemoteToolError: The request was refused, failed, or was answered with an error.
            SettingsError: A credential or a URL is missing in the settings.
        """
        secrets = remote_headers(self._settings, spec)
        try:
            request = fill_request(placed(spec, self._settings.remote_tools), arguments, secrets)
        except RemoteRequestError as fault:
            raise RemoteToolError(str(fault)) from None
        waited, attempt = 0.0, 1
        while True:
            outcome = await self._try(spec, request)
            if isinstance(outcome, Answer) and outcome.status < 400:
                return mask(outcome.text, secrets)
            wait = self._wait(spec, attempt, outcome)
            if wait is None or waited + wait > _RETRYING_MAX_S:
                raise _error(request, outcome, secrets)
            _log.info("tool.retried tool=%s attempt=%d delay_s=%.2f", spec.name, attempt, wait)
            await self._sleep(wait)
            if not await go_on():
                raise _error(request, outcome, secrets)
            waited, attempt = waited + wait, attempt + 1

    async def _try(self, spec: RemoteSpec, request: RemoteRequest) -> Answer | Exception:
        limits = self._settings.remote_tools
        timeout_s = limits.timeout_seconds
        if spec.retry is not None and spec.retry.request_timeout_s is not None:
            timeout_s = min(timeout_s, spec.retry.request_timeout_s)
        try:
            return await exchange(request, self._guard, limits, timeout_s=timeout_s)
        except (httpx2.HTTPError, httpx2.InvalidURL, TargetRefusedError, TimeoutError, ValueError) as fault:
            return fault

    def _wait(self, spec: RemoteSpec, attempt: int, outcome: Answer | Exception) -> float | None:
        """How long to wait before the next attempt, in seconds; None = there is none."""
        retry = spec.retry
        if retry is None or attempt > retry.max_retries:
            return None
        if isinstance(outcome, Answer):
            if not recoverable(retry, outcome.status, outcome.text):
                return None
            own = wait_s(retry, attempt, outcome.status, self._uniform)
            return max(own, outcome.retry_after_s or 0.0)
        may_mend = isinstance(outcome, httpx2.TransportError | TimeoutError) and not _is_certificate(outcome)
        return wait_s(retry, attempt, None, self._uniform) if may_mend else None


def placed(spec: RemoteSpec, limits: RemoteToolSettings) -> RemoteSpec:
    """The request with the URL that the operator wants, if he wants another."""
    override = limits.tools.get(spec.name, RemoteToolOverride())
    if override.url is not None:
        # A whole URL of the operator's own needs no leave of the document's list.
        free = bool(placeholders(split_url(override.url)[0]))
        allow_list = spec.allow_list if free else None
        return spec.model_copy(update={"url": override.url, "allow_list": allow_list})
    allow_list = spec.allow_list
    if allow_list is not None:
        allow_list = tuple(_replaced(entry, limits) for entry in allow_list)
    return spec.model_copy(update={"url": _replaced(spec.url, limits), "allow_list": allow_list})


def _replaced(url: str, limits: RemoteToolSettings) -> str:
    begin = max((b for b in limits.replace_urls if url.startswith(b)), key=len, default=None)
    return url if begin is None else limits.replace_urls[begin] + url[len(begin) :]


def _error(
    request: RemoteRequest, outcome: Answer | Exception, secrets: Mapping[str, SecretStr]
) -> RemoteToolError:
    if isinstance(outcome, Answer):
        said = mask(outcome.text, secrets)[:_ERROR_MAX_CHARS]
        return RemoteToolError(f"HTTP {outcome.status} from {outcome.url}: {said}".rstrip(": "))
    if isinstance(outcome, TargetRefusedError):
        return RemoteToolError(str(outcome))
    where = shown(request.url)
    if isinstance(outcome, TimeoutError | httpx2.TimeoutException):
        return RemoteToolError(f"{where} did not answer in time.")
    if isinstance(outcome, httpx2.TooManyRedirects):
        return RemoteToolError(f"{where} redirects too often.")
    if _is_certificate(outcome):
        return RemoteToolError(f"{where} has a TLS certificate that is not trusted.")
    # No text of the error: it may quote a header.
    return RemoteToolError(f"{where} cannot be reached ({type(outcome).__name__}).")


def _is_certificate(fault: BaseException) -> bool:
    cause: BaseException | None = fault
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False
