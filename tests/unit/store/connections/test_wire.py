"""What the server's error replies become."""

import hashlib

import pytest

from retinue.contract.errors import StoreError, StoreMemoryError, StoreReplyError, StoreUnavailableError
from retinue.store.connections import wire
from retinue.store.connections.urls import ServerAddress
from retinue.store.script import Script


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("OOM command not allowed when used memory > 'maxmemory'.", StoreMemoryError),
        ("ERR Error running script (f_1): @user_script:1: -OOM command not allowed", StoreMemoryError),
        ("LOADING the dataset is loading in memory", StoreUnavailableError),
        ("READONLY You can't write against a read only replica.", StoreUnavailableError),
        ("BUSY a script is running", StoreUnavailableError),
        ("MISCONF cannot persist to disk", StoreUnavailableError),
        ("WRONGTYPE Operation against a key", StoreReplyError),
        ("ERR value is not an integer", StoreReplyError),
        ("OOMPH is no code we know", StoreReplyError),
    ],
)
def test_an_error_reply_becomes_the_exception_that_says_what_to_do(text: str, kind: type[StoreError]):
    assert type(wire.error_reply(text)) is kind


def test_an_error_reply_is_cut_to_a_length_that_fits_a_log_line():
    assert len(str(wire.error_reply("ERR " + "x" * 10_000))) == 500


def test_a_connection_to_a_replica_is_dropped_and_one_with_a_busy_server_is_kept():
    assert wire.drops_connection(wire.error_reply("READONLY no"))
    assert not wire.drops_connection(wire.error_reply("BUSY wait"))
    assert not wire.drops_connection(b"READONLY as a value")


def test_a_block_calls_scripts_by_digest_or_by_body():
    script = Script.from_text("echo", "return ARGV[1]")
    sha = hashlib.sha1(b"return ARGV[1]").hexdigest()
    commands = [("PING",), (script, ["k"], ["v"])]
    assert sha.encode() in wire.pack_block(commands)
    body = wire.pack_block(commands, with_body=True)
    assert b"return ARGV[1]" in body
    assert sha.encode() not in body


def test_a_client_name_with_spaces_is_made_acceptable():
    assert wire.client_name_for("retinue worker é") == "retinue-worker--"
    assert wire.client_name_for("") is None


@pytest.mark.parametrize(
    ("at", "text", "says", "mend"),
    [
        (0, "WRONGPASS invalid username-password pair", "refuses the credentials", "the password"),
        (0, "ERR AUTH <password> called without any password", "refuses the credentials", "the password"),
        (1, "ERR DB index is out of range", "refuses the database 99", "the database number"),
        (2, "NOAUTH Authentication required.", "refuses the credentials", "the password"),
        (0, "ERR max number of clients reached", "is not ready", None),
        (2, "LOADING the dataset is loading in memory", "is not ready", None),
    ],
)
def test_a_refused_greeting_says_what_to_correct(at: int, text: str, says: str, mend: str | None):
    address = ServerAddress.parse("redis://:SECRET@host:1/99")
    replies: list[wire.Reply] = [b"OK", b"OK", b"PONG"]
    replies[at] = wire.error_reply(text)
    with pytest.raises(StoreUnavailableError, match=says) as caught:
        wire.check_greeting(address, wire.greeting(address, None), replies)
    assert (caught.value.mend is None) is (mend is None)
    assert (mend or "") in str(caught.value)
    assert "SECRET" not in str(caught.value)


def test_a_server_that_is_no_primary_is_refused_where_one_is_wanted():
    address = ServerAddress.parse("redis://host")
    commands = wire.greeting(address, None, ask_role=True)
    assert commands == [("ROLE",), ("PING",)]
    wire.check_greeting(address, commands, [[b"master", 7, []], b"PONG"])
    # Who may not ask finds out by the first write.
    wire.check_greeting(address, commands, [wire.error_reply("NOPERM no"), b"PONG"])
    with pytest.raises(StoreUnavailableError, match="no primary"):
        wire.check_greeting(address, commands, [[b"slave", b"h", 1, b"connected", 7], b"PONG"])
