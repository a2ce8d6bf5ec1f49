"""Whose runs a facade may act on: a session's, a running parent's session's, or a tenant's."""

from __future__ import annotations

from dataclasses import dataclass

from retinue.client.parent import ParentRun, current_parent
from retinue.contract import (
    ErrorCode,
    SubagentHandle,
    SubagentLifecycleError,
    coerce_handle,
    is_run_id,
    validate_session,
    validate_tenant,
)
from retinue.store.call import RunKey
from retinue.store.record import Record


@dataclass(frozen=True, slots=True)
class Target:
    """A genuine handle and the run that it leads to."""

    handle: SubagentHandle
    key: RunKey


@dataclass(frozen=True, slots=True)
class Scope:
    """Who asks.

    Args:
        tenant: Whose runs.
        session_id: Of this session only. None = of every session, for an operator; else of none.
        is_operator: May act on every session of the tenant, and launches nothing.
        parent: The running tool call that launches. None = roots are launched.
    """

    tenant: str
    session_id: str | None
    is_operator: bool = False
    parent: ParentRun | None = None

    @classmethod
    def checked(cls, tenant: object, session_id: object, *, is_operator: bool = False) -> Scope:
        """A scope whose names obey the rules.

        Raises:
            SubagentLifecycleError: They do not.
        """
        session = None if session_id is None else validate_session(session_id)
        return cls(validate_tenant(tenant), session, is_operator)

    @classmethod
    def of_parent(cls, parent: ParentRun) -> Scope:
        """The scope of a running tool call: its run's session."""
        binding = parent.binding()
        return cls(binding.tenant, binding.session_id, parent=parent)

    def now(self) -> Scope:
        """The scope of a call made now: this one, or the running parent's if this one names no session."""
        parent = current_parent.get()
        if self.session_id is not None or self.is_operator or parent is None:
            return self
        return Scope.of_parent(parent)

    def candidate(self, handle: object) -> SubagentHandle | None:
        """The handle, if it is well formed and of a session in this scope; genuine only a keyring tells."""
        found = coerce_handle(handle)
        if found is None or not self._covers(found.parent_session_id):
            return None
        return found

    def target(self, handle: SubagentHandle) -> Target:
        """Where a genuine handle leads to."""
        return Target(handle, RunKey(self.tenant, handle.subagent_id))

    def run_key(self, run_id: object) -> RunKey | None:
        """A run by its bare id; whether it is in the scope, `owns` tells."""
        return RunKey(self.tenant, str(run_id)) if is_run_id(run_id) else None

    def owns(self, record: Record) -> bool:
        """Whether a run is of a session in this scope."""
        return self._covers(record.session_id)

    def launching_session(self) -> str:
        """The session that new runs belong to.

        Raises:
            SubagentLifecycleError: NO_PARENT: there is none.
        """
        if self.session_id is None or self.is_operator:
            raise SubagentLifecycleError(
                "an operator launches nothing" if self.is_operator else "no session and no running parent",
                field="session_id",
                mend="use SubagentLifecycle(session_id=...), or launch from a tool that a worker runs",
                code=ErrorCode.NO_PARENT,
            )
        return self.session_id

    def listed_session(self, asked: object) -> str:
        """The session whose runs are listed.

        Args:
            asked: By the caller; None = the scope's own.

        Raises:
            SubagentLifecycleError: There is none, or it is not in the scope.
        """
        session = self.session_id if asked is None else validate_session(asked)
        if session is None or not self._covers(session):
            raise SubagentLifecycleError(
                "names no session of this facade",
                field="session_id",
                limit=self.session_id or "a session id",
                mend="name the session; only SubagentLifecycle.operator() may name any",
            )
        return session

    def _covers(self, session_id: str) -> bool:
        return self.is_operator or (self.session_id is not None and self.session_id == session_id)


def refuse_http(url: object, api_key: object) -> None:
    """Refuses what a facade that goes to the store itself has no use for.

    Raises:
        SubagentLifecycleError: A key without a url; or both, for a class that cannot use them.
    """
    if url is not None:
        raise SubagentLifecycleError(
            "is given to a class derived from the facade that goes to the store itself",
            field="url",
            mend="derive from retinue.client.over_http.HttpLifecycle or AsyncHttpLifecycle",
        )
    if api_key is not None:
        raise SubagentLifecycleError("is given without a url", field="api_key", mend="give the API's url too")
