"""What the server's error replies become."""

import hashlib

import pytest

from retinue.contract.errors import StoreError, StoreMemoryError, StoreReplyError, StoreUnavailableError
from retinue.store import wire
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
