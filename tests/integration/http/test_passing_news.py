"""News that are not kept: heard by who listens, published for nobody else."""

from __future__ import annotations

import asyncio

from tests.integration.client.store_worker import PROCESS
from tests.integration.http.stream_stage import DEADLINE_S, StreamStage, until

from retinue.contract import SubagentHandle
from retinue.http.streams.opening import open_stream
from retinue.http.streams.stream import NEWS_BYTES
from retinue.store import keys
from retinue.store.connections.async_channels import AsyncChannels
from retinue.store.operations import noting, passing
from retinue.store.replies import Fence


def _publish(stage: StreamStage, run: SubagentHandle, piece: str, offset: int = 0) -> None:
    call = passing.publish_delta(stage.key(run), run.subagent_id, iteration=1, offset=offset, piece=piece)
    stage.worker.store.run(call)


async def _heard(stage: StreamStage, run: SubagentHandle) -> None:
    """Returns once the tree is marked as listened to."""
    await until(lambda: stage.worker.link.execute("EXISTS", keys.listened("_", run.subagent_id)))


def _progress(stage: StreamStage, run: SubagentHandle, fence: Fence, message: str) -> None:
    stage.worker.store.run(noting.note_progress(stage.key(run), fence, index=0, message=message))


async def test_pieces_and_progress_come_without_ids_before_the_events_that_follow_them(
    stage: StreamStage,
) -> None:
    run = await stage.launch()
    opened = await stage.opened(run, deltas=True)
    deaf = await stage.opened(run)
    await _heard(stage, run)
    fence = stage.worker.claim(run)
    assert stage.worker.boundary(run, fence).is_heard
    _publish(stage, run, "Hal\n\nlo \ud800")
    _progress(stage, run, fence, "half\r\ndone")
    await opened.until("tool.progress")
    delta, progress = (sent for sent in opened.reader.events if sent.id is None)
    assert (delta.kind, delta.data) == (
        "model.delta",
        {"run_id": run.subagent_id, "iteration": 1, "offset": 0, "text": "Hal\n\nlo \ud800"},
    )
    assert progress.data["data"] == {"index": 0, "message": "half\r\ndone"}
    assert set(progress.data) == {"type", "run_id", "at", "data"}
    stage.worker.finish(run, fence)
    assert (await opened.until_over()).sequences() == (await deaf.until_over()).sequences()
    assert all(sent.id is not None for sent in deaf.reader.events)


async def test_nobody_listens_unless_asked(stage: StreamStage) -> None:
    run = await stage.launch()
    opened = await stage.opened(run)
    await opened.until("run.created")
    fence = stage.worker.claim(run)
    assert not stage.worker.boundary(run, fence).is_heard
    assert stage.worker.link.execute("PUBSUB", "CHANNELS", "retinue:*news") == []


async def test_the_marker_lasts_while_somebody_listens_and_not_much_longer(stage: StreamStage) -> None:
    run = await stage.launch()
    opened = await stage.opened(run, deltas=True)
    await _heard(stage, run)
    marker = keys.listened("_", run.subagent_id)
    stage.worker.link.execute("PEXPIRE", marker, 8_000)
    await until(lambda: stage.worker.link.execute("PTTL", marker) > 8_000)
    await opened.close()
    await until(lambda: not stage.worker.link.execute("PUBSUB", "CHANNELS", "retinue:*news"))
    assert 0 < stage.worker.link.execute("PTTL", marker) <= passing.LISTENING_MS


async def test_who_waits_for_a_model_already_is_told_that_somebody_listens(
    stage: StreamStage,
) -> None:
    told: asyncio.Queue[bytes] = asyncio.Queue()
    joined = asyncio.Event()
    channel = keys.process_channel(PROCESS)
    process = AsyncChannels(
        stage.service.settings.required_store_url,
        on_message=lambda _name, message: told.put_nowait(message),
        on_joined=lambda _name: joined.set(),
    )
    process.join(channel)
    async with asyncio.timeout(DEADLINE_S):
        await joined.wait()
    idle, asking = await stage.launch(), await stage.launch()
    fence = stage.worker.claim(asking)
    stage.worker.boundary(asking, fence)
    await stage.opened(idle, deltas=True)
    await stage.opened(asking, deltas=True)
    async with asyncio.timeout(DEADLINE_S):
        word = (await told.get()).partition(b" ")[0].decode()
    assert word == passing.told_word(asking.subagent_id)
    assert told.empty()
    await process.close()


async def test_news_of_other_runs_stay_out_of_a_runs_own_stream(stage: StreamStage) -> None:
    run, other = await stage.launch(), await stage.launch()
    opened = await stage.opened(run, deltas=True)
    await _heard(stage, run)
    _publish(stage, other, "not yours")
    _publish(stage, run, "yours")
    await opened.until("model.delta")
    assert [sent.data["text"] for sent in opened.reader.events if sent.kind == "model.delta"] == ["yours"]


async def test_what_a_client_does_not_take_is_dropped_and_shows(stage: StreamStage) -> None:
    run = await stage.launch()
    stream = await open_stream(stage.service, stage.key(run), after=0, whole_tree=True, takes_news=True)
    assert stream is not None
    with stream:
        await stream.next()
        await stream.next()
        await _heard(stage, run)
        piece = "x" * 1_000
        for n in range(200):
            _publish(stage, run, piece, offset=1_000 * n)
        _publish(stage, run, "last", offset=200_000)
        async with asyncio.timeout(DEADLINE_S):
            taken = b""
            while b"model.delta" not in taken:
                taken += (await stream.next()).content
            await asyncio.sleep(0.2)
            taken += (await stream.next()).content
    assert len(taken) <= NEWS_BYTES + 2_000
    stage.worker.complete(run)


async def test_nonsense_on_the_channel_is_ignored(stage: StreamStage) -> None:
    run = await stage.launch()
    opened = await stage.opened(run, deltas=True)
    await _heard(stage, run)
    channel = keys.news_channel("_", run.subagent_id)
    for message in (
        "",
        "[]",
        "{}",
        '{"e":"model.delta","r":"x"}',
        '{"e":"run.finished","r":"x","t":1}',
        "[" * 9_000,
    ):
        stage.worker.link.execute("PUBLISH", channel, message)
    _publish(stage, run, "text")
    await opened.until("model.delta")
    assert [sent.kind for sent in opened.reader.events if sent.id is None] == ["model.delta"]


async def test_channels_are_heard_again_after_a_cut(stage: StreamStage) -> None:
    run = await stage.launch()
    opened = await stage.opened(run, deltas=True)
    await _heard(stage, run)
    marker = keys.listened("_", run.subagent_id)
    stage.worker.link.execute("DEL", marker)
    clients = stage.worker.link.execute("CLIENT", "LIST").decode().splitlines()
    (line,) = [line for line in clients if " name=retinue-news " in line]
    stage.worker.link.execute("CLIENT", "KILL", "ID", line.split()[0].partition("=")[2])
    await _heard(stage, run)
    _publish(stage, run, "again")
    await opened.until("model.delta")
