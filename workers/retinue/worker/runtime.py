"""The part of a worker process that executes runs, on the pool's event loop."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from celery import Celery

from retinue.agents.registry.catalogue import advertise as advertised
from retinue.broker.addresses import for_links
from retinue.broker.catalogue import AsyncCatalogue, WorkerEntry, advertise, withdraw
from retinue.broker.envelope import EnvelopeTemplate
from retinue.broker.keyring_store import AsyncKeyringStore
from retinue.broker.notices import Notifier
from retinue.broker.outbound.target_guard import TargetGuard
from retinue.broker.reaper.casualties import free_places, owned_members, take_over
from retinue.broker.reaper.owner_check import OwnerCheck
from retinue.broker.reaper.reaper import Reaper
from retinue.broker.routes import private_queue
from retinue.broker.server.durability import Durability
from retinue.broker.wakeups import Waker
from retinue.client.launching.planning import LaunchPlanner
from retinue.contract import StoreError
from retinue.store.call import RunKey
from retinue.store.connections.async_subscription import AsyncSubscriptions
from retinue.store.connections.link import AsyncLink
from retinue.store.connections.replicated_links import AsyncReplicatedLink
from retinue.store.operations import noting, running
from retinue.worker.bootstrap import Prepared, prepare
from retinue.worker.crash_points import mortal_model, mortal_notices, mortal_store, mortal_wakes
from retinue.worker.documents import LaunchedDocuments
from retinue.worker.models import OpenAiModel, RetryPolicy
from retinue.worker.models.admission import Admissions
from retinue.worker.models.prices import Prices
from retinue.worker.models.providers import ProviderBundles
from retinue.worker.network.network_tools import NetworkTools
from retinue.worker.pool.canaries import Canaries
from retinue.worker.pool.reports import ReceivedWakeUp, Succeeded, TaskReport
from retinue.worker.pool.revocation import cancel_by_run_id
from retinue.worker.process.drain import drain_when_asked, terminate_this_process
from retinue.worker.process.exhaustion import end_if_exhausted, end_when_exhausted
from retinue.worker.process.fence_check import FenceCheck
from retinue.worker.process.hints import CancelHints
from retinue.worker.process.outbox import Outbox
from retinue.worker.process.patience import PatientStore, until_answered
from retinue.worker.process.roll import Roll
from retinue.worker.run.attempt import Attempt, Suspect
from retinue.worker.run.hook_calls import HookCalls
from retinue.worker.services import Pool, Services
from retinue.worker.specs import SpecResolver
from retinue.worker.suspects.suspects import Suspects

if TYPE_CHECKING:
    from retinue.worker.pool.run_pool import RunPool

_log = logging.getLogger("retinue.worker")
_BEAT_EVERY_S = 0.5
_ADVERTISE_EVERY_S = 30.0
_UNWIND_S = 2.0
"""How long cancelled attempts may take to end, in seconds."""


def create_runtime(app: Celery, pool: RunPool) -> WorkerRuntime:
    """The runtime of a worker process; named by the app's configuration.

    Raises:
        RetinueError: The process cannot be made ready; the text says the mend.
    """
    prepared = prepare()
    # The lease, the owner sets and the private queue must bear one name.
    pool.process_id = prepared.process
    return WorkerRuntime(app, pool, prepared)


class WorkerRuntime:
    """Executes the wake-ups that Celery received.

    Args:
        app: The Retinue app.
        pool: Whose slots a waiting run lends.
        prepared: The process.
        alone: It has one run to itself: it may take suspects, looks after no other process, and advertises
            nothing that others could send it.
    """

    def __init__(self, app: Celery, pool: Pool, prepared: Prepared, *, alone: bool = False) -> None:
        self._app = app
        self._pool = pool
        self._prepared = prepared
        self._alone = alone
        self._suspects = Suspects(
            pool, hang_s=prepared.settings.hang_seconds, drain_s=prepared.settings.drain_seconds
        )
        self._roll = Roll()
        self._draining = asyncio.Event()
        self._lease_is_back = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._attempts: set[asyncio.Task[TaskReport]] = set()

    @property
    def takes_work(self) -> bool:
        """Whether this process may claim runs: not while others may take it for dead.

        While the store itself is out of reach nobody can, and a claim waits until it is there again.
        """
        lease = self._prepared.lease
        return not lease.lost.is_set() or lease.lost_reason == "store"

    async def start(self) -> None:
        """Connects, advertises what the process can run, and starts to watch."""
        self._loop = asyncio.get_running_loop()
        end_when_exhausted(self._loop)
        settings, registry = self._prepared.settings, self._prepared.registry
        url, process = settings.required_store_url, self._prepared.process
        link_kind = AsyncReplicatedLink if settings.durability is Durability.STRICT else AsyncLink
        self._link = link_kind(
            url,
            client_name="retinue-worker",
            connect_timeout_s=settings.store_timeout_seconds,
            timeout_s=settings.store_timeout_seconds,
        )
        self._subscriptions = AsyncSubscriptions(url, client_name="retinue-worker-subscriptions")
        store = mortal_store(self._link)
        self._store = PatientStore(store)
        template = EnvelopeTemplate.capture(self._app)
        waker = Waker(self._app, template=template, link=self._link if settings.same_server else None)
        self._waker = mortal_wakes(waker)
        self._fence_check = FenceCheck(store, self._roll)
        self._hints = CancelHints(self._subscriptions, self._store, process)
        self._canaries = Canaries(store, self._subscriptions, process)
        objects = [name for name, entry in registry.agents.items() if entry.target is not None]
        loops = {*registry.agents, settings.delegation.default_agent_name} - {*objects}
        guard = TargetGuard(settings.remote_tools)
        self._admissions = Admissions(
            self._store,
            self._subscriptions,
            process,
            self._pool,
            most_lent=self._pool.limit,
            output_tokens=settings.budget.estimated_output_tokens,
            closed_max_s=settings.model_retry_seconds,
            draining=self._draining,
        )
        self._model = OpenAiModel(timeout_s=settings.model_timeout_seconds, guard=guard)
        capable = running.capability(sorted(loops), objects)
        hooks = HookCalls(registry.hooks, settings.hook_timeout_seconds)
        ring = AsyncKeyringStore(store, settings.handle_keys)
        self._notifier = Notifier(settings)
        self._outbox = Outbox(store, self._link, ring, mortal_notices(self._notifier), hooks, capable)
        self._services = Services(
            process=process,
            capable=capable,
            settings=settings,
            store=self._store,
            wakes=self._waker,
            slots=self._pool,
            registry=registry,
            specs=SpecResolver(registry, settings, LaunchedDocuments(self._store, registry)),
            # Patient as well: a run that delegates must not fail because the store is away.
            catalogue=AsyncCatalogue(self._store),
            planner=LaunchPlanner(settings, template if settings.same_server else None),
            model=mortal_model(self._model),
            retries=RetryPolicy(
                max_attempts=settings.model_max_attempts, max_elapsed_s=settings.model_retry_seconds
            ),
            admissions=self._admissions,
            network=NetworkTools(settings, guard),
            provider=ProviderBundles(settings).of,
            prices=Prices(settings),
            hooks=hooks,
            outbox=self._outbox,
            draining=self._draining,
            alone=self._alone,
        )
        self._prepared.lease.set_callbacks(on_lost=self._on_lost, on_back=self._on_back)
        self._started_at = time.time()
        self._watch_over(self._beat())
        # A server that restarts just now must not end a worker that it has let in before.
        await until_answered(self._advertise)
        self._broker = self._broker_link()
        notices = ("notices", self._outbox.look_for_notices)
        reaper = Reaper(store, self._link, self._broker, self._waker, settings, process, more=(notices,))
        owner_check = OwnerCheck(
            store,
            self._link,
            self._waker,
            settings,
            process,
            self._roll.members,
            not_owned=self._fence_check.look,
        )
        asked = drain_when_asked(self._subscriptions, self._store, process, self._drain)
        for work in (self._readvertise(), owner_check.run(), asked):
            self._watch_over(work)
        if not self._alone:
            self._watch_over(reaper.run())
            self._watch_over(self._canaries.answer_when_full(self._pool.if_full))
        if hooks.are_told_of_ends and not self._alone:
            self._watch_over(self._outbox.watch_for_ends())
        # Each request at INFO is noise here; a failure is in the run's result and events.
        logging.getLogger("httpx2").setLevel(logging.WARNING)
        # Its tracebacks quote what servers send.
        logging.getLogger("mcp").setLevel(logging.CRITICAL)
        _log.info("worker.ready process=%s agents=%d", process, len(registry.agents))

    async def run(self, task: ReceivedWakeUp) -> TaskReport:
        """Does what the store has for the run that a wake-up names."""
        if not self.takes_work:
            # Popped before the lease was lost; the reaper wakes the run again.
            return Succeeded("dropped: the lease is lost")
        attempt = Attempt(self._services, self._roll, self._hints, RunKey(task.tenant, task.run_id))
        current = asyncio.current_task()
        assert current is not None
        self._attempts.add(current)
        try:
            report = await attempt.run()
            return await self._suspects.run(report.key) if isinstance(report, Suspect) else report
        except asyncio.CancelledError:
            if not self._draining.is_set():
                raise
            return Succeeded("cut: the worker stops, and hands the run back")
        finally:
            self._attempts.discard(current)

    def revoke(self, run_id: str, terminate: bool) -> None:
        """Cancels a run that Celery was told to revoke; from the hub's thread."""
        del terminate  # both are the same cancel: cooperative, at the next boundary
        if self._loop is not None:
            work = cancel_by_run_id(self._store, self._waker, run_id)
            asyncio.run_coroutine_threadsafe(work, self._loop)

    def take_canary(self, nonce: str) -> None:
        """Says that a canary has come to this process."""
        self._canaries.answer(nonce, is_full=False)

    async def stop(self, timeout_s: float) -> None:
        """Lets runs reach their boundary, hands them back, and takes the process out of the catalogue."""
        self._draining.set()
        self._admissions.wake()
        # Not waited for: where the store is away, nothing could be sent to this process anyway.
        self._tasks.append(asyncio.create_task(self._say_draining()))
        self._suspects.close()
        if timeout_s > 0 and self._attempts:
            await asyncio.wait(set(self._attempts), timeout=timeout_s)
        stopped = (*self._tasks, *self._attempts)
        for task in stopped:
            task.cancel()
        if stopped:
            await asyncio.wait(stopped, timeout=_UNWIND_S)
        self._tasks.clear()
        await self._outbox.close(_UNWIND_S if timeout_s > 0 else 0)
        # The entry stays where a run could not be handed back, so that the reaper finds it.
        with suppress(StoreError):
            await self._admissions.close(_UNWIND_S)
            await self._hand_back_the_rest()
            await free_places(self._store.store, self._prepared.settings, self._prepared.process)
            if not await owned_members(self._link, self._prepared.process):
                await withdraw(self._link, self._prepared.process)
        await self._suspects.end(hurry=timeout_s <= 0)
        await asyncio.to_thread(self._prepared.lease.close)
        await self._model.close()
        await self._notifier.close()
        await self._subscriptions.close()
        if self._broker is not None:
            await self._broker.close()
        await self._link.close()

    async def _hand_back_the_rest(self) -> None:
        """Queues what was cut: nobody need wait for this process's lease to end, and no loss is counted."""
        process, store = self._prepared.process, mortal_store(self._link)
        count = await take_over(
            store,
            self._waker,
            process,
            sorted(await owned_members(self._link, process)),
            dead=False,
            counted=False,
            losses_before_end=self._prepared.settings.losses_before_worker_lost,
        )
        if count:
            _log.warning("runs.handed_back process=%s count=%d", process, count)

    def _broker_link(self) -> AsyncLink | None:
        """For counting messages: the store's own link, one to the broker, or none that could count."""
        settings = self._prepared.settings
        if settings.same_server:
            return self._link
        address = settings.broker_address
        return None if address is None else AsyncLink(for_links(address), client_name="retinue-reaper")

    def _watch_over(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        task.add_done_callback(end_if_exhausted)
        self._tasks.append(task)

    async def _beat(self) -> None:
        while True:
            self._prepared.lease.beat("loop")
            await asyncio.sleep(_BEAT_EVERY_S)

    async def _readvertise(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_ADVERTISE_EVERY_S):
                    await self._lease_is_back.wait()
            was_lost = self._lease_is_back.is_set()
            self._lease_is_back.clear()
            if self.takes_work:
                with suppress(Exception):
                    await self._advertise()
                    if was_lost:
                        # What it went on with meanwhile, others may have taken over.
                        await self._fence_check.look()

    async def _say_draining(self) -> None:
        with suppress(StoreError):
            await self._advertise()
            for run in self._roll.held():
                await self._store.store.run(noting.note_draining(run.key, run.fence))

    def _drain(self) -> None:
        terminate_this_process()
        self._pool.look_again()

    async def _advertise(self) -> None:
        prepared = self._prepared
        default = prepared.settings.delegation.default_agent_name
        worker = WorkerEntry(
            process=prepared.process,
            host=socket.gethostname(),
            pid=os.getpid(),
            started_at=self._started_at,
            # As Celery understood the command line: -Q wins over the queues of the agents.
            queues=() if self._alone else tuple(sorted(self._app.amqp.queues.consume_from)),
            private_queue=private_queue(prepared.process),
            agents=() if self._alone else tuple(sorted({*prepared.registry.agents, default})),
            slots=self._pool.limit,
            name=self._pool.node_name,
            draining=self._draining.is_set(),
            answers_canaries=not self._alone,
        )
        entries = advertised(prepared.registry, prepared.settings)
        await advertise(self._link, worker, entries, tuple(prepared.settings.providers), time.time())

    def _on_lost(self, reason: str) -> None:
        """The lease is gone: others may hold the runs now, so this process stops working on them.

        Not so while the store itself is out of reach: then nobody can take a run over, and dropping every
        model call in flight would only cost them again. Should others reach the store, the fence refuses
        what this process still writes.
        """
        _log.error("lease.lost process=%s reason=%s runs=%d", self._prepared.process, reason, len(self._roll))
        loop = self._loop
        if loop is not None and reason != "store":
            loop.call_soon_threadsafe(self._fence)

    def _on_back(self) -> None:
        """The lease is held again: whoever took the process for dead has taken it out of the catalogue."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._lease_is_back.set)
        self._pool.look_again()

    def _fence(self) -> None:
        for run in self._roll.held():
            run.lose()
        for task in self._attempts:
            task.cancel()
