"""Who asks, and what that caller may do: by an API key, by a token, or by a run's own handle."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from fastapi import Depends, Request

from retinue.client import SubagentHandle


class Scope(StrEnum):
    """What a key lets its holder do."""

    READ = "run:read"
    WRITE = "run:write"  # launch and control; what is written may be read
    ADMIN = "admin"  # workers, dead letters, webhooks, and all of the others


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks.

    Args:
        tenant: Whose runs the caller may see.
        scopes: What it may do.
        key_id: Of the API key, for limits and logs; of a token its subject, of a handle "handle".
        handle: The genuine handle that came along; with no key it is the caller's whole authority.
    """

    tenant: str
    scopes: frozenset[Scope]
    key_id: str
    handle: SubagentHandle | None = None
    by_handle: bool = False

    def may(self, scope: Scope) -> bool:
        """Whether the caller has a scope, also by one that includes it."""
        wider = {Scope.READ: (Scope.WRITE, Scope.ADMIN), Scope.WRITE: (Scope.ADMIN,), Scope.ADMIN: ()}
        return scope in self.scopes or any(each in self.scopes for each in wider[scope])
