"""The Lua files as text: their heads, flags, and what they may call."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from retinue.store import scripts
from retinue.store.scripts import operation_names, script

FOLDER = Path(scripts.__file__).parent / "lua"
OPERATIONS = operation_names()
NOT_ON_ONE_RUN = {
    "acquire_place",
    "add_webhook",
    "admit",
    "admit_key",
    "begin_request",
    "discard",
    "drop_webhook",
    "elect",
    "enable_webhook",
    "end_request",
    "find_tenant",
    "forget_queue",
    "free_places",
    "launch",
    "list_roots",
    "listen",
    "post_deliveries",
    "read_dead",
    "read_live",
    "read_deliveries",
    "read_webhooks",
    "ready_lanes",
    "record_delivery",
    "redeliver",
    "release_lane",
    "release_place",
    "renew_place",
    "revoke_key",
    "rotate_secret",
    "take_lane",
    "take_out",
    "told",
}
ON_A_RUN = [name for name in OPERATIONS if name not in NOT_ON_ONE_RUN]

READ_ONLY = {
    "find_tenant",
    "list_roots",
    "read",
    "read_asked",
    "read_conversation",
    "read_dead",
    "read_live",
    "read_deliveries",
    "read_requests",
    "read_webhooks",
    "ready_lanes",
}
# At maxmemory what is held must still be let go, and what was paid for be kept.
ALLOWED_WHEN_FULL = {
    "admit",
    "admit_key",
    "begin_approved",
    "cancel",
    "discard",
    "drop_webhook",
    "end_request",
    "finish",
    "forget_queue",
    "free_places",
    "hand_back",
    "handoff",
    "interrupt",
    "no_worker",
    "note_draining",
    "purge",
    "record_delivery",
    "record_model",
    "record_tool_result",
    "release_lane",
    "release_place",
    "renew_place",
    "revoke_key",
    "rewake",
    "suspend",
    "sweep",
    "take_lane",
    "take_out",
    "take_over",
    "timer",
    "told",
}
REFUSED_WHEN_FULL = {
    "acquire_place",
    "add_webhook",
    "answer",
    "begin_request",
    "boundary",
    "claim",
    "decide",
    "enable_webhook",
    "launch",
    "listen",
    "note",
    "post_deliveries",
    "raise_budget",
    "redeliver",
    "rotate_secret",
    "steer",
}
# A reaper that is elected anew writes no more than its name.
EITHER_WAY = {"elect"}

READS = {
    "EXISTS",
    "GET",
    "HEXISTS",
    "HGET",
    "HGETALL",
    "HLEN",
    "HMGET",
    "HVALS",
    "LLEN",
    "LRANGE",
    "SISMEMBER",
    "SMEMBERS",
    "SRANDMEMBER",
    "TIME",
    "ZCARD",
    "ZCOUNT",
    "ZRANDMEMBER",
    "ZRANGE",
    "ZRANGEBYLEX",
    "ZREVRANK",
    "ZSCORE",
}
WRITES = {
    "COPY",
    "DEL",
    "EXPIRE",
    "HDEL",
    "HINCRBY",
    "HSET",
    "HSETNX",
    "LPUSH",
    "LSET",
    "LTRIM",
    "PERSIST",
    "PEXPIRE",
    "PEXPIREAT",
    "PUBLISH",
    "RPUSH",
    "SADD",
    "SET",
    "SREM",
    "SUNIONSTORE",
    "UNLINK",
    "ZADD",
    "ZREM",
    "ZREMRANGEBYSCORE",
}


def _file(name: str) -> str:
    return (FOLDER / f"{name}.lua").read_text()


def _head(name: str) -> str:
    """The comment that a script opens with, as one line."""
    lines = _file(name).splitlines()[1:]
    head = [line.removeprefix("--").strip() for line in lines[: _first_code(lines)]]
    return " ".join(head)


def _first_code(lines: list[str]) -> int:
    return next(n for n, line in enumerate(lines) if not line.startswith("--") or line.startswith("--!"))


def _code(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))


def _calls(name: str) -> set[str]:
    return set(re.findall(r"redis\.p?call\('(\w+)'", _code(script(name).body)))


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_script_opens_with_its_header_and_says_purpose_keys_arguments_and_replies(name: str) -> None:
    assert re.fullmatch(r"#!lua( flags=[a-z,-]+)?", _file(name).splitlines()[0])
    head = _head(name)
    for part in ("KEYS[1]", "ARGV 1", "Replies "):
        assert part in head, part
    assert head.index("KEYS[1]") > 20, "the purpose comes first"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("_*.lua")), ids=lambda path: path.stem)
def test_a_shared_part_says_what_it_is_for_and_is_used(path: Path) -> None:
    assert path.read_text().startswith("-- ")
    assert any(f"--!include {path.stem}\n" in _file(name) for name in OPERATIONS)


def test_every_operation_has_its_flags() -> None:
    flags = {name: _file(name).splitlines()[0].partition("flags=")[2] for name in OPERATIONS}
    expected = dict.fromkeys(READ_ONLY, "no-writes")
    expected |= dict.fromkeys(ALLOWED_WHEN_FULL, "allow-oom") | dict.fromkeys(REFUSED_WHEN_FULL, "")
    assert {name: flag for name, flag in flags.items() if name not in EITHER_WAY} == expected


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_script_calls_only_commands_of_redis_7_0_by_name_and_walks_no_key_space(name: str) -> None:
    body = _code(script(name).body)
    assert body.count("redis.call(") + body.count("redis.pcall(") == len(
        re.findall(r"redis\.p?call\('[A-Z]+'", body)
    )
    assert _calls(name) <= READS | WRITES
    if name in READ_ONLY:
        assert not _calls(name) & WRITES


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_reply_and_argument_that_a_script_uses_stands_in_its_head(name: str) -> None:
    text = _code(_file(name))
    arguments, _, replies = _head(name).partition("ARGV ")[2].partition("Replies ")
    for reply in re.findall(r"return \{ '([A-Z_]+)'", text):
        assert re.search(rf"\b{reply}\b", replies), reply
    highest = max((int(number) for number in re.findall(r"ARGV\[(\d+)\]", text)), default=1)
    assert re.search(rf"\b{highest}\b", arguments), highest


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_script_reads_the_clock_at_most_once_and_through_its_shared_part(name: str) -> None:
    assert len(re.findall(r"call\('TIME'\)", script(name).body)) <= 1
    assert "'TIME'" not in _file(name)


@pytest.mark.parametrize("name", OPERATIONS)
def test_includes_are_put_in_and_leave_the_header_first(name: str) -> None:
    body = script(name).body
    assert body.startswith("#!lua")
    assert "--!include" not in body
    assert script(name) is script(name), "read once a process"


@pytest.mark.parametrize("name", ON_A_RUN)
def test_a_script_touches_only_keys_of_its_runs_partition(name: str) -> None:
    """Keys are built of the two prefixes, which share a hash tag, or of a key that was."""
    text = _code(script(name).body)
    built = {"run", "tree", "events", "marks", "thread", "live", "due", "key", "parent", "turns", "entries"}
    for command, key in re.findall(r"redis\.call\('([A-Z]+)', ([^,)]+)", text):
        first = key.split(" ")[0]
        if command == "PUBLISH" and first == "'retinue:process:'":
            continue  # a channel is no key
        if command == "LPUSH":
            continue  # the broker's list, where broker and store are one server
        assert first in {"T", "P", "KEYS[1]", *built}, (command, key)


def test_no_operation_is_without_a_script() -> None:
    with pytest.raises(FileNotFoundError):
        script("no_such_operation")
