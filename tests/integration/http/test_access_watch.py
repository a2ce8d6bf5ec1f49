"""Who may read no more is told to the streams: keys that are revoked, keys and tokens that expire."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from tests.integration.http.stream_stage import DEADLINE_S, StreamStage

from retinue.contract import StoreUnavailableError
from retinue.http.credentials import Caller
from retinue.http.streams.access_watch import AccessWatch
from retinue.store.operations.api_keys import IssuedKey, Scope, create_key, revoke_key

READ = frozenset({Scope.READ})


@pytest.fixture
async def watch(stage: StreamStage) -> AsyncIterator[AccessWatch]:
    made = AccessWatch(lambda: stage.service.connections().store, every_s=0.02)
    yield made
    await made.close()


def issue(stage: StreamStage) -> IssuedKey:
    return create_key(stage.worker.store, name="test")


def caller(issued: IssuedKey) -> Caller:
    return Caller("_", READ, issued.key.key_id, expires_at=issued.key.expires_at)


async def wait_for(over: asyncio.Event) -> None:
    async with asyncio.timeout(DEADLINE_S):
        await over.wait()


async def test_a_revoked_key_is_told_to_all_its_streams_and_to_no_other(
    stage: StreamStage, watch: AccessWatch
) -> None:
    revoked, good = issue(stage), issue(stage)
    with (
        watch.watching(caller(revoked)) as one,
        watch.watching(caller(revoked)) as two,
        watch.watching(caller(good)) as other,
    ):
        stage.worker.store.run(revoke_key(revoked.key.key_id))
        await wait_for(one)
        await wait_for(two)
        assert not other.is_set()


async def test_a_key_that_is_not_there_is_told_as_well(stage: StreamStage, watch: AccessWatch) -> None:
    with watch.watching(Caller("_", READ, "a" * 12)) as over:
        await wait_for(over)


@pytest.mark.parametrize("key_id", ["jwt:alice", "a" * 12])
async def test_what_expires_is_told_at_that_moment(stage: StreamStage, key_id: str) -> None:
    watch = AccessWatch(lambda: stage.service.connections().store, every_s=3_600)
    with (
        watch.watching(Caller("_", READ, key_id, expires_at=time.time() + 0.05)) as soon,
        watch.watching(Caller("_", READ, key_id, expires_at=time.time() + 3_600)) as later,
    ):
        await wait_for(soon)
        assert not later.is_set()
    await watch.close()


async def test_tokens_and_handles_are_no_keys_to_be_looked_up(stage: StreamStage, watch: AccessWatch) -> None:
    key = issue(stage)
    with (
        watch.watching(Caller("_", READ, "jwt:alice")) as token,
        watch.watching(Caller("_", READ, "handle", by_handle=True)) as handle,
        watch.watching(caller(key)) as over,
    ):
        stage.worker.store.run(revoke_key(key.key.key_id))
        await wait_for(over)
        assert not token.is_set()
        assert not handle.is_set()


async def test_a_store_that_is_away_ends_no_stream_and_is_asked_again(stage: StreamStage) -> None:
    asked = 0

    def store():
        nonlocal asked
        asked += 1
        if asked == 1:
            raise StoreUnavailableError("away")
        return stage.service.connections().store

    watch, key = AccessWatch(store, every_s=0.02), issue(stage)
    stage.worker.store.run(revoke_key(key.key.key_id))
    with watch.watching(caller(key)) as over:
        await wait_for(over)
    assert asked == 2
    await watch.close()


async def test_nothing_is_looked_up_while_there_is_no_stream(stage: StreamStage, watch: AccessWatch) -> None:
    before = asyncio.all_tasks()
    with watch.watching(caller(issue(stage))):
        (looking,) = asyncio.all_tasks() - before
    async with asyncio.timeout(DEADLINE_S):
        await looking
    key = issue(stage)
    stage.worker.store.run(revoke_key(key.key.key_id))
    with watch.watching(caller(key)) as over:
        await wait_for(over)
