"""The truth: keys, one Lua script an operation, and the calls that run them, in two colours.

`keys` is the catalogue of keys. An operation is a value, made by `launching`, `running`, `control` or
`reading`, that `Store` and `AsyncStore` run over a link.
"""

from retinue.store.call import CommandCall, RunKey, ScriptCall
from retinue.store.connections.link import AsyncLink
from retinue.store.connections.sync_link import SyncLink
from retinue.store.record import Record, WakeUp, WakeUpKind
from retinue.store.store import AsyncStore, Store

__all__ = [
    "AsyncLink",
    "AsyncStore",
    "CommandCall",
    "Record",
    "RunKey",
    "ScriptCall",
    "Store",
    "SyncLink",
    "WakeUp",
    "WakeUpKind",
]
