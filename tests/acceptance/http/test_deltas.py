"""What is not kept: pieces of text and progress from real workers, for who listens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from tests.acceptance.http.http_rig import HttpRig, http_rig
from tests.acceptance.http.raw_streams import RawClients, RawStream

from retinue.testing.scripts import Turn

DEADLINE_S = 90.0
STORY = "Once upon a time there was a worker that told everything. " * 6


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpRig]:
    """One worker and one API process."""
    with http_rig(tmp_path_factory.mktemp("deltas"), agents="news_agents") as made:
        made.rig.worker()
        made.api()
        yield made


def _slowly(text: str = STORY) -> Turn:
    return Turn(text=text, chunk_interval_s=0.05, chunk_chars=12)


def _deltas(stream: RawStream, run_id: str) -> list[dict[str, object]]:
    found = [sent for sent in stream.reader.events if sent.kind == "model.delta"]
    assert all(sent.id is None for sent in found)
    assert {sent.data["run_id"] for sent in found} <= {run_id}
    return [sent.data for sent in found]


def _text(deltas: list[dict[str, object]]) -> str:
    """The text, of which no piece may be missing."""
    text = ""
    for delta in deltas:
        assert delta["offset"] == len(text)
        text += str(delta["text"])
    return text


@pytest.fixture
async def clients(rig: HttpRig) -> AsyncIterator[RawClients]:
    async with RawClients(rig.key()) as made:
        yield made


async def test_who_listens_hears_a_text_as_it_is_written(rig: HttpRig, clients: RawClients) -> None:
    rig.rig.model.script("teller").then(_slowly())
    lifecycle = rig.rig.lifecycle("deltas")
    handle = await asyncio.to_thread(lifecycle.launch, agent="teller", goal="Tell me something.")
    async with asyncio.timeout(DEADLINE_S):
        stream = await clients.open(rig.apis[0].port, handle.subagent_id, query="?deltas=1")
        reader = await stream.until_over()
    deltas = _deltas(stream, handle.subagent_id)
    assert _text(deltas) == STORY
    assert len(deltas) > 2, "in pieces, as it is written"
    assert {delta["iteration"] for delta in deltas} == {1}
    kinds = reader.kinds()
    assert max(n for n, kind in enumerate(kinds) if kind == "model.delta") < kinds.index("model.finished")
    assert reader.sequences() == [1, 2, 3, 4, 5]


async def test_who_comes_in_the_midst_of_a_request_hears_it_from_its_beginning(
    rig: HttpRig, clients: RawClients
) -> None:
    model = rig.rig.model
    model.script("teller", when=lambda request: "again" in request.last_user).then(_slowly(STORY * 2))
    lifecycle = rig.rig.lifecycle("deltas")
    handle = await asyncio.to_thread(lifecycle.launch, agent="teller", goal="Tell it again.")
    async with asyncio.timeout(DEADLINE_S):
        before = await clients.open(rig.apis[0].port, handle.subagent_id)
        await before.until("model.started")
        # Some of it has been written by then: the log tells of a request only after it has begun.
        stream = await clients.open(rig.apis[0].port, handle.subagent_id, query="?deltas=1")
        await stream.until_over()
        await before.until_over()
    assert _text(_deltas(stream, handle.subagent_id)) == STORY * 2
    assert _deltas(before, handle.subagent_id) == []


async def test_nothing_is_published_while_nobody_listens(rig: HttpRig) -> None:
    model, server = rig.rig.model, rig.rig.server
    model.script("teller", when=lambda request: "alone" in request.last_user).then(
        _slowly("Nobody hears. " * 9)
    )
    lifecycle = rig.rig.lifecycle("deltas")
    ear = server.client(decode_responses=True).pubsub(ignore_subscribe_messages=True)
    # A subscription alone is no listener: it sets no marker.
    ear.psubscribe("retinue:*:news")
    ear.get_message(timeout=5)
    handle = await asyncio.to_thread(lifecycle.launch, agent="teller", goal="Tell it alone.")
    ended = await asyncio.to_thread(lifecycle.wait, handle, DEADLINE_S)
    assert ended.state == "SUCCEEDED"
    assert ear.get_message(timeout=0.2) is None
    ear.close()


async def test_a_tools_progress_comes_as_it_is_reported(rig: HttpRig, clients: RawClients) -> None:
    rig.rig.model.script("digger").call("dig", {}).then("Dug.")
    lifecycle = rig.rig.lifecycle("deltas")
    handle = await asyncio.to_thread(lifecycle.launch, agent="digger", goal="Dig.")
    async with asyncio.timeout(DEADLINE_S):
        stream = await clients.open(rig.apis[0].port, handle.subagent_id, query="?deltas=1")
        await stream.until("tool.progress")
        rig.rig.trace("dug").touch()
        reader = await stream.until_over()
    (progress,) = (sent for sent in reader.events if sent.kind == "tool.progress")
    assert progress.id is None
    assert progress.data["data"] == {"index": 0, "message": "half way"}
    assert reader.kinds().index("tool.progress") < reader.kinds().index("tool.finished")
