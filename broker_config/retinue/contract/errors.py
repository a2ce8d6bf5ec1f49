"""Every error that Retinue raises on purpose.

    RetinueError
    ├── SubagentLifecycleError (ValueError)   a refused or failed call of the lifecycle facade
    ├── DeclarationError (ValueError)         an agent, tool or toolset declared wrongly
    │   └── AgentSpecError                    an Agent Spec object or file that cannot be used
    ├── SettingsError                         a setting that is missing or wrong
    └── StoreError                            the store did not do what was asked
        ├── StoreUnavailableError             no connection, or no reply in time: `sent` tells which
        ├── StoreMemoryError                  the server is at maxmemory and refused the write
        ├── StaleFenceError                   the attempt no longer owns its run: stop, write nothing
        └── StoreReplyError                   an error reply, or a reply that makes no sense

Each takes one message and keyword fields that default to None, and keeps the fields in ``__dict__``:
that is what makes Exception's own pickling carry them to another process.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .handle import SubagentHandle


class ErrorCode(StrEnum):
    """Why a lifecycle call was refused, for programs; the message is for people."""

    INVALID_REQUEST = "INVALID_REQUEST"
    UNKNOWN_AGENT = "UNKNOWN_AGENT"
    UNKNOWN_TOOLSET = "UNKNOWN_TOOLSET"
    UNKNOWN_PROVIDER = "UNKNOWN_PROVIDER"
    TOOLSET_BROADENING = "TOOLSET_BROADENING"  # asked for more than the parent's grant
    DUPLICATE_CORRELATION = "DUPLICATE_CORRELATION"
    CORRELATION_CONFLICT = "CORRELATION_CONFLICT"  # the same id for another request
    CAPACITY_REACHED = "CAPACITY_REACHED"  # live children, or children of the tree
    DEPTH_EXCEEDED = "DEPTH_EXCEEDED"
    DUPLICATE_WORK = "DUPLICATE_WORK"  # a run above was asked to do the same
    PARENT_ENDED = "PARENT_ENDED"  # terminal, cancelled, or no longer owned by the caller
    NO_PARENT = "NO_PARENT"  # neither a session nor a running parent
    NO_WORKER = "NO_WORKER"
    RUN_ACTIVE = "RUN_ACTIVE"  # a live run still writes to the conversation
    UNKNOWN_HANDLE = "UNKNOWN_HANDLE"  # no such run for this caller, or no longer
    STORE_UNAVAILABLE = "STORE_UNAVAILABLE"
    LAUNCH_UNKNOWN = "LAUNCH_UNKNOWN"  # may have happened: `handle` tells, once the store answers
    WRONG_LOOP = "WRONG_LOOP"  # a sync call on a running event loop
    # Only over HTTP:
    UNAUTHENTICATED = "UNAUTHENTICATED"  # no key, or one that the API does not know (any more)
    FORBIDDEN = "FORBIDDEN"  # the key lacks the scope
    RATE_LIMITED = "RATE_LIMITED"  # the key has asked too often


class RetinueError(Exception):
    """The base of every error that Retinue raises on purpose."""


class SubagentLifecycleError(RetinueError, ValueError):
    """A call of the lifecycle facade that was refused, or whose outcome is unknown.

    Args:
        message: what is wrong, without the limit and the mend, which ``str()`` adds.
        field: the argument at fault, dotted for nested ones (``on_done.task``). None = no single one.
        limit: the rule that it breaks, with its unit. None = no number or rule to name.
        mend: what the caller can do about it.
        code: the reason for programs.
        handle: the run concerned, where one exists or may exist (LAUNCH_UNKNOWN).
    """

    def __init__(
        self,
        message: str,
        *,
        field: str | None = None,
        limit: str | None = None,
        mend: str | None = None,
        code: ErrorCode = ErrorCode.INVALID_REQUEST,
        handle: SubagentHandle | None = None,
    ) -> None:
        super().__init__(message)
        self.field = field
        self.limit = limit
        self.mend = mend
        self.code = code
        self.handle = handle

    @property
    def message(self) -> str:
        """What is wrong, without field, limit and mend."""
        return str(self.args[0])

    def __str__(self) -> str:
        return _sentence(self.message, name=self.field, limit=self.limit, mend=self.mend)


class DeclarationError(RetinueError, ValueError):
    """An agent, tool or toolset that is declared wrongly; raised where it is declared or loaded.

    Args:
        message: what is wrong.
        field: the argument at fault. None = the declaration as a whole.
        limit: the rule that it breaks.
        mend: what the author can do about it.
    """

    def __init__(
        self, message: str, *, field: str | None = None, limit: str | None = None, mend: str | None = None
    ) -> None:
        super().__init__(message)
        self.field = field
        self.limit = limit
        self.mend = mend

    def __str__(self) -> str:
        return _sentence(str(self.args[0]), name=self.field, limit=self.limit, mend=self.mend)


class AgentSpecError(DeclarationError):
    """An Agent Spec object or file that is broken, or of a kind that Retinue does not run."""


class SettingsError(RetinueError):
    """A setting that is missing or wrong.

    Args:
        message: what is wrong, never with a secret's value.
        setting: the setting's name as the user writes it (``RETINUE_STORE_URL``).
        mend: what to set, or to run.
    """

    def __init__(self, message: str, *, setting: str | None = None, mend: str | None = None) -> None:
        super().__init__(message)
        self.setting = setting
        self.mend = mend

    @property
    def message(self) -> str:
        """What is wrong, without setting and mend."""
        return str(self.args[0])

    def __str__(self) -> str:
        return _sentence(self.message, name=self.setting, limit=None, mend=self.mend)


class StoreError(RetinueError):
    """The store did not do what was asked."""


class StoreUnavailableError(StoreError):
    """No connection, no reply in time, or a server that cannot serve now.

    Repeating the operation is safe: each carries an id, and a repeat gets the first reply.

    Args:
        message: what is wrong.
        sent: whether the operation may have happened: it left, and no reply came. False = it did not.
        timed_out: whether the reply did not come within its time. False = whatever happened, happened sooner.
        mend: what to correct, where the server is there and does not let this process in. None = it may
            come back by itself.
    """

    def __init__(
        self, message: str, *, sent: bool = False, timed_out: bool = False, mend: str | None = None
    ) -> None:
        super().__init__(message)
        self.sent = sent
        self.timed_out = timed_out
        self.mend = mend

    @property
    def message(self) -> str:
        """What is wrong, without the mend."""
        return str(self.args[0])

    def __str__(self) -> str:
        return _sentence(self.message, name=None, limit=None, mend=self.mend)


class StoreMemoryError(StoreError):
    """The server is at maxmemory and refused the write; nothing was changed."""


class StaleFenceError(StoreError):
    """The attempt no longer owns its run: another one does, or the run has ended.

    Whoever gets this must stop the run's work and write nothing more for it.
    """

    def __init__(self, message: str, *, run_id: str | None = None) -> None:
        super().__init__(message)
        self.run_id = run_id


class StoreReplyError(StoreError):
    """The server answered with an error, or with a reply that makes no sense."""


def _sentence(message: str, *, name: str | None, limit: str | None, mend: str | None) -> str:
    text = f"{name}: {message}" if name else message
    if limit:
        text += f" (limit: {limit})"
    # Some messages quote another program's sentence, full stop and all.
    return f"{text.removesuffix('.')}. To mend: {mend.removesuffix('.')}." if mend else text
