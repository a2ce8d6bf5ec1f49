"""One launch of one or more runs: what is asked of the store, and what its answer means."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from retinue.client.launching.faults import MAY_BE_NEW, refusal
from retinue.client.launching.requests import request_named
from retinue.client.launching.seed import LaunchSeed
from retinue.client.launching.ticket import JoinedThread, Ticket
from retinue.client.parent import ParentBinding
from retinue.client.reading.answers import handle_of, handle_of_origin, mint
from retinue.client.scope import Scope
from retinue.contract import (
    ErrorCode,
    Keyring,
    OnDuplicate,
    SubagentHandle,
    SubagentLaunchRequest,
    SubagentLifecycleError,
    child_run_id,
    new_run_id,
    partition_of,
    request_digest,
    seeded_run_id,
)
from retinue.store.call import RunKey, ScriptCall
from retinue.store.operations import launching
from retinue.store.operations.launching import (
    MAX_LAUNCHES,
    DuplicateCorrelation,
    Launched,
    LaunchReply,
    NewRun,
    Parent,
)
from retinue.store.operations.reading import RunOrigin, RunResult
from retinue.store.record import WakeUp, WakeUpKind

if TYPE_CHECKING:
    from retinue.broker.catalogue import CatalogueSnapshot
    from retinue.client.launching.planning import LaunchPlanner, Plan

_MOST_EXPIRED = 3


class LaunchBatch:
    """The launch of some runs of one session, all or none.

    Ids are given out once, here, so that whatever is repeated later launches the same runs.

    Args:
        requests: 1 to 100, each checked in itself.
        scope: Who launches.
        thread: The conversation that the only request goes on with. None = each begins one.
        replays: The run whose dead letter the only request stands in. None = it stands in none.
        seed: What the ids are derived from, for a repeat from elsewhere to have the same. None = new ones.

    Raises:
        SubagentLifecycleError: None or too many, nobody to launch for, or requests that do not go together.
    """

    def __init__(
        self,
        requests: Sequence[SubagentLaunchRequest],
        scope: Scope,
        *,
        thread: JoinedThread | None = None,
        replays: str | None = None,
        seed: LaunchSeed | None = None,
    ) -> None:
        if not 1 <= len(requests) <= MAX_LAUNCHES:
            raise SubagentLifecycleError(
                f"there are {len(requests)}",
                field="requests",
                limit=f"1 to {MAX_LAUNCHES}",
                mend="launch in several calls" if requests else f"give 1 to {MAX_LAUNCHES}",
            )
        self._tenant, self._session = scope.tenant, scope.launching_session()
        self._parent: ParentBinding | None = scope.parent.binding() if scope.parent else None
        self._requests = tuple(requests)
        self._thread = thread
        self._replays = replays
        self._seed = seed
        self._same_as = _repetitions(requests)
        partition = partition_of(self._tenant, self._session)
        ids: list[str] = []
        for at in range(len(requests)):
            if scope.parent is not None and self._parent is not None:
                call = self._parent
                child = scope.parent.next_child()
                ids.append(child_run_id(call.run_id, call.iteration, call.call_index, child))
            elif seed is not None:
                ids.append(seeded_run_id(partition, seed.text, at))
            else:
                ids.append(new_run_id(partition))
        self._ids = tuple(ids)
        self._plans: dict[int, Plan] = {}
        self._handles: dict[int, SubagentHandle] = {}
        self._tree_cap = 0
        self._expired = 0

    @staticmethod
    def may_be_new(error: SubagentLifecycleError) -> bool:
        """Whether the name at fault may have been advertised since the catalogue was last read."""
        return error.code in MAY_BE_NEW

    def run_keys(self) -> tuple[RunKey, ...]:
        """The runs as they were or will be launched, in the order of the requests."""
        return tuple(RunKey(self._tenant, run_id) for run_id in self._ids)

    def recall(self, ring: Keyring, key: RunKey, origin: RunOrigin | None, kept_request: str | None) -> None:
        """Takes what an earlier attempt at this launch left of one of its runs, if it came that far.

        Args:
            origin: The run's. None = it was not launched, or has expired.
            kept_request: Its launch, where only that is kept any more.
        """
        at = self._ids.index(key.run_id)
        if origin is not None:
            self._handles[at] = handle_of_origin(ring, self._tenant, key.run_id, origin)
        elif kept_request is not None and self._seed is not None:
            self._handles[at] = mint(
                ring,
                self._tenant,
                self._session,
                Ticket.from_json(kept_request),
                run_id=key.run_id,
                depth=0,
                created_at=self._seed.made_at,
            )

    def plan(self, planner: LaunchPlanner, snapshot: CatalogueSnapshot) -> None:
        """Checks each launch against what is advertised.

        Raises:
            SubagentLifecycleError: Names field, limit and mend; nothing was written.
        """
        plans: dict[int, Plan] = {}
        for at, request in enumerate(self._requests):
            if self._same_as[at] != at or at in self._handles:
                continue
            with request_named(at, len(self._requests)):
                plans[at] = planner.plan(
                    request,
                    snapshot,
                    tenant=self._tenant,
                    session_id=self._session,
                    run_id=self._ids[at],
                    parent=self._parent,
                    thread=self._thread,
                )
        self._plans = plans
        self._tree_cap = planner.max_tree_children

    def call(self) -> ScriptCall[LaunchReply] | None:
        """The launch of what has no handle yet; None = everything has."""
        open_plans = self._open()
        if not open_plans:
            return None
        parent = self._parent
        return launching.launch(
            self._tenant,
            self._session,
            [replace(plan.new_run, replays=self._replays) for plan in open_plans.values()],
            parent=Parent(parent.run_id, parent.epoch, parent.token, None) if parent else None,
            max_tree_children=self._tree_cap,
            session_ttl_s=next(iter(open_plans.values())).session_ttl_s,
        )

    def settle(self, ring: Keyring, reply: LaunchReply) -> RunKey | None:
        """Takes the answer: the handles, or a run that is to be returned in place of a new one.

        Returns:
            That run: it is to be read and given to `found`. None = the launch is done.

        Raises:
            SubagentLifecycleError: The store refused; nothing was written.
        """
        open_plans = self._open()
        match reply:
            case Launched():
                for (at, plan), run in zip(open_plans.items(), reply.runs, strict=True):
                    depth = run.depth or self._depth
                    created_at = (run.created_ms or reply.now_ms) / 1000
                    self._handles[at] = self._mint(ring, plan, depth, created_at)
                return None
            case DuplicateCorrelation(same=True, run_id=run_id):
                return RunKey(self._tenant, run_id)
            case DuplicateCorrelation():
                raise refusal(reply, correlation_id=self._taken())
            case _:
                raise refusal(reply)

    def found(self, ring: Keyring, key: RunKey, existing: RunResult | None) -> None:
        """Takes a run that holds the correlation id of one of the requests.

        Args:
            existing: None = it has expired since: the launch is to be asked for again.

        Raises:
            SubagentLifecycleError: DUPLICATE_CORRELATION: something holds the id, and cannot be read.
        """
        if existing is not None:
            digest = existing.view.record.fields.get("co")
            for at, plan in self._open().items():
                if plan.new_run.correlation == digest:
                    self._handles[at] = handle_of(ring, self._tenant, key.run_id, existing)
                    return
        self._expired += 1
        if self._expired > _MOST_EXPIRED:
            holder = DuplicateCorrelation(key.run_id, same=False, conflict=False)
            raise refusal(holder, correlation_id=self._taken())

    def handles(self) -> tuple[SubagentHandle, ...]:
        """One for each request, in order."""
        return tuple(self._handles[self._same_as[at]] for at in range(len(self._requests)))

    def draft(self, ring: Keyring) -> SubagentHandle:
        """The handle of the first run, should its launch have happened."""
        plan = next(iter(self._open().values()))
        return self._mint(ring, plan, self._depth, round(time.time(), 3))

    def wakeups(self) -> tuple[WakeUp, ...]:
        """The first wake-ups of the open runs, for a broker that is another server."""
        return tuple(self._wakeup(plan.new_run) for plan in self._open().values())

    @property
    def _depth(self) -> int:
        return self._parent.depth + 1 if self._parent else 0

    def _open(self) -> dict[int, Plan]:
        return {at: plan for at, plan in self._plans.items() if at not in self._handles}

    def _mint(self, ring: Keyring, plan: Plan, depth: int, created_at: float) -> SubagentHandle:
        return mint(
            ring,
            self._tenant,
            self._session,
            plan.ticket,
            run_id=plan.new_run.run_id,
            depth=depth,
            created_at=created_at,
        )

    def _wakeup(self, run: NewRun) -> WakeUp:
        parent = self._parent
        return WakeUp(
            tenant=self._tenant,
            run_id=run.run_id,
            number=1,
            kind=WakeUpKind.DELEGATE,
            agent=run.agent,
            queue=run.queue,
            priority=run.priority,
            root_id=parent.root_id if parent else run.run_id,
            parent_id=parent.run_id if parent else None,
        )

    def _taken(self) -> str:
        """The correlation id that is taken: of several in one launch the store does not say which."""
        given = {request.correlation_id for request in self._requests if request.correlation_id}
        return " or ".join(sorted(given)[:3])


def _repetitions(requests: Sequence[SubagentLaunchRequest]) -> list[int]:
    """For each request the first one with its correlation id: those share a run.

    Raises:
        SubagentLifecycleError: A repetition that does not ask for the first one's run, or not for its work.
    """
    first: dict[str, int] = {}
    same_as: list[int] = []
    for at, request in enumerate(requests):
        before = first.setdefault(request.correlation_id, at) if request.correlation_id else at
        if before != at:
            equal = request_digest(request) == request_digest(requests[before])
            if request.on_duplicate is not OnDuplicate.RETURN or not equal:
                raise SubagentLifecycleError(
                    "stands there twice",
                    field=f"requests[{at}].correlation_id",
                    limit="unique within a session while its run is kept",
                    mend='give each request its own, or equal requests on_duplicate="return"',
                    code=ErrorCode.CORRELATION_CONFLICT if not equal else ErrorCode.DUPLICATE_CORRELATION,
                )
        same_as.append(before)
    return same_as
