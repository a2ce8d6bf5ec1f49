"""What the asynchronous and the synchronous connection share: packing, replies, errors, greeting.

Pure; all input and output is in connection.py and sync_connection.py.
"""

from collections.abc import Sequence
from typing import Any

import hiredis

from retinue.contract.errors import (
    StoreError,
    StoreMemoryError,
    StoreReplyError,
    StoreUnavailableError,
)
from retinue.store.connections.sentinel_urls import StoreAddress
from retinue.store.connections.urls import ServerAddress
from retinue.store.script import Script

Argument = str | bytes | int | float
Reply = bytes | int | None | list["Reply"] | StoreError
"""One reply as it came: errors inside a list or a pipeline stand in their place."""

ProtocolError = hiredis.ProtocolError
INCOMPLETE = object()
"""What a reader answers when the next reply has not fully arrived."""

_ERROR_MAX_CHARS = 500


class ConnectionCut(Exception):
    """The connection ended before the reply came; the command may or may not have run."""


class ReplyTimeout(ConnectionCut):
    """The server did not answer in time; repeating the command would only wait again."""


def lost_reply(address: StoreAddress, cut: ConnectionCut) -> StoreUnavailableError:
    """What a link raises when it gives up a command that was cut."""
    return StoreUnavailableError(f"{address}: {cut}", sent=True, timed_out=isinstance(cut, ReplyTimeout))


# The server is there but will not serve this command now, or is no longer the one to ask.
_UNAVAILABLE_CODES = frozenset(
    {"BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MISCONF", "NOREPLICAS", "READONLY", "TRYAGAIN"}
)
# After these the same connection stays useless: behind the name there may be another server now.
_DROP_CODES = frozenset({"READONLY", "MASTERDOWN", "LOADING"})
_FULL = "max number of clients"
_OPTIONAL = ("CLIENT", "ROLE")
_REFUSED_CODES = frozenset({"NOAUTH", "WRONGPASS", "NOPERM", "DENIED"})


def error_reply(text: str) -> StoreError:
    """The exception for an error reply of the server.

    Args:
        text: The reply without its leading ``-``.
    """
    code = text.partition(" ")[0]
    shown = text.removeprefix("ERR ")[:_ERROR_MAX_CHARS]
    # Older servers wrap what a command inside a script answered: "ERR Error running script ... -OOM".
    if code == "OOM" or "-OOM command not allowed" in text:
        return StoreMemoryError(shown)
    if code in _UNAVAILABLE_CODES:
        return StoreUnavailableError(shown)
    return StoreReplyError(shown)


def new_reader() -> hiredis.Reader:
    """A parser whose error replies are our exceptions, as values."""
    return hiredis.Reader(replyError=error_reply, notEnoughData=INCOMPLETE)


def pack(command: tuple[Argument, ...]) -> bytes:
    """One command as it goes over the wire.

    Args:
        command: The command's name and arguments.

    Raises:
        TypeError: An argument is neither text, bytes nor a number.
        UnicodeEncodeError: A text holds lone surrogates.
    """
    return hiredis.pack_command(command)  # pyright: ignore[reportArgumentType]  (its stub says: one item)


def drops_connection(reply: object) -> bool:
    """Whether the reply says that this connection is of no more use."""
    return isinstance(reply, StoreUnavailableError) and str(reply).partition(" ")[0] in _DROP_CODES


def evalsha(script: Script, keys: Sequence[str], argv: Sequence[Argument]) -> tuple[Argument, ...]:
    """The command that calls a script the server knows."""
    return ("EVALSHA", script.sha, len(keys), *keys, *argv)


def eval_body(script: Script, keys: Sequence[str], argv: Sequence[Argument]) -> tuple[Argument, ...]:
    """The command that calls a script and teaches it to the server."""
    return ("EVAL", script.body, len(keys), *keys, *argv)


def pack_block(commands: Sequence[tuple[Any, ...]], *, with_body: bool = False) -> bytes:
    """Several commands as they go over the wire together.

    Args:
        commands: Each a tuple of name and arguments, or of script, keys and argv.
        with_body: Call scripts by their body instead of their digest.
    """
    call = eval_body if with_body else evalsha
    return b"".join(
        pack(call(*command) if isinstance(command[0], Script) else command) for command in commands
    )


def is_unknown_script(reply: object) -> bool:
    """Whether the server has forgotten (or never heard of) the script."""
    return isinstance(reply, StoreReplyError) and str(reply).startswith("NOSCRIPT")


def greeting(
    address: ServerAddress, client_name: str | None, *, ask_role: bool = False
) -> list[tuple[Argument, ...]]:
    """What a new connection says first, in one write.

    It always ends with a PING: a server that is loading, hung or wants a password shows itself while
    connecting, within the connect time-out, and not at the first command.
    """
    commands: list[tuple[Argument, ...]] = []
    if address.password is not None:
        user = () if address.username is None else (address.username,)
        commands.append(("AUTH", *user, address.password))
    if client_name is not None:
        commands.append(("CLIENT", "SETNAME", client_name))
    if address.db:
        commands.append(("SELECT", address.db))
    if ask_role:
        commands.append(("ROLE",))
    commands.append(("PING",))
    return commands


def check_greeting(
    address: ServerAddress, commands: Sequence[tuple[Argument, ...]], replies: Sequence[Reply]
) -> None:
    """Accept or refuse what the server answered to a greeting.

    Raises:
        StoreUnavailableError: It does not let us in (then with a mend), or is not ready.
    """
    for command, reply in zip(commands, replies, strict=True):
        if command[0] == "ROLE" and isinstance(reply, list) and reply[0] != b"master":
            raise StoreUnavailableError(f"{address} is not ready: it is no primary, or no longer")
        # An ACL may forbid both: the name is for people who read CLIENT LIST, and a replica refuses writes.
        if isinstance(reply, StoreError) and command[0] not in _OPTIONAL:
            text = str(reply)
            refused = text.partition(" ")[0] in _REFUSED_CODES
            # A server with too many clients says so in place of its first reply, and will have room again.
            if not refused and (not isinstance(reply, StoreReplyError) or text.startswith(_FULL)):
                raise StoreUnavailableError(f"{address} is not ready: {text}")
            if refused or command[0] == "AUTH":
                what, mend = "the credentials", "correct the user and the password in the store's URL"
            elif command[0] == "SELECT":
                what, mend = f"the database {address.db}", "correct the database number in the store's URL"
            else:
                raise StoreUnavailableError(f"{address} is not ready: {text}")
            raise StoreUnavailableError(f"{address} refuses {what}: {text}", mend=mend)


def client_name_for(name: str | None) -> str | None:
    """A connection name that CLIENT SETNAME takes: printable ASCII without spaces."""
    if not name:
        return None
    return "".join(letter if "!" <= letter <= "~" else "-" for letter in name)
