"""Streams of events: each event once and in order, whatever happens to the client, the hub or the log."""

from __future__ import annotations

import asyncio

import pytest
from tests.integration.client.tool_parent import ToolParent
from tests.integration.http.stream_stage import DEADLINE_S, StreamStage, stream_stage

from retinue.contract import SubagentHandle
from retinue.http.problems import Problem
from retinue.store.operations import control


async def test_a_stream_tells_what_was_and_what_comes_and_ends_with_the_runs_end(stage: StreamStage) -> None:
    run = await stage.launch()
    opened = await stage.opened(run)
    await opened.until("run.created")
    stage.worker.complete(run)
    reader = await opened.until_over()
    assert reader.kinds() == [
        "run.created", "run.started", "model.started", "model.finished", "run.finished",
    ]  # fmt: skip
    assert [sent.id for sent in reader.events] == reader.sequences() == [1, 2, 3, 4, 5]
    assert reader.retry_ms == 2_000
    shown = [event.to_dict() async for event in stage.lifecycle.events(run)]
    assert [sent.data for sent in reader.events] == shown


async def test_a_run_that_has_ended_is_told_whole_and_closed(stage: StreamStage) -> None:
    run = await stage.launch()
    stage.worker.complete(run)
    reader = await (await stage.opened(run)).until_over()
    assert reader.sequences() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("after", range(5))
async def test_a_stream_goes_on_after_any_event(stage: StreamStage, after: int) -> None:
    run = await stage.launch()
    stage.worker.complete(run)
    reader = await (await stage.opened(run, after=after)).until_over()
    assert reader.sequences() == list(range(after + 1, 6))


async def test_who_has_the_end_is_told_that_nothing_is_left(stage: StreamStage) -> None:
    run = await stage.launch()
    stage.worker.complete(run)
    assert await stage.open(run, after=5) is None


async def test_an_unknown_run_has_no_stream(stage: StreamStage) -> None:
    run = await stage.launch()
    for other in ("sa-p07-" + "a" * 26, run.subagent_id[:-1] + ("a" if run.subagent_id[-1] != "a" else "b")):
        with pytest.raises(Problem) as refused:
            await stage.open(other)
        assert refused.value.status == 404
    with pytest.raises(Problem):
        await stage.page("sa-p07-" + "a" * 26)


async def _family(stage: StreamStage) -> tuple[SubagentHandle, str]:
    """A run that waits for a child that it has delegated to."""
    root = await stage.launch()
    fence = stage.worker.claim(root)
    stage.worker.record(root, fence, stage.worker.boundary(root, fence), tools=["run_agent"])
    parent = ToolParent(root, fence)
    lifecycle = type(stage.lifecycle).of_parent(parent, settings=stage.service.settings)
    child = await lifecycle.launch(agent="researcher", goal="look it up")
    return root, child.subagent_id


async def test_a_childs_stream_ends_with_its_own_end_though_others_come_later(stage: StreamStage) -> None:
    root, child = await _family(stage)
    opened = await stage.opened(child)
    stage.worker.complete(child)
    reader = await opened.until_over()
    last = reader.events[-1]
    assert (last.kind, last.data["run_id"]) == ("run.finished", child)
    assert {sent.data["run_id"] for sent in reader.events} == {root.subagent_id, child}
    # The tree goes on: whoever comes back has missed nothing of what this stream was for.
    control_events = len(await stage.log(root))
    assert control_events == last.id
    stage.worker.store.run(control.cancel(stage.key(root), reason="enough"))
    assert await stage.open(child, after=last.id) is None
    assert await stage.open(child, after=last.id + 1) is None


async def test_the_scope_of_a_run_leaves_out_what_is_not_below_it(stage: StreamStage) -> None:
    root, child = await _family(stage)
    stage.worker.complete(child)
    whole = await (await stage.opened(child)).until_over()
    own = await (await stage.opened(child, whole_tree=False)).until_over()
    assert {sent.data["run_id"] for sent in own.events} == {child}
    assert own.events == [sent for sent in whole.events if sent.data["run_id"] == child]
    middle = own.events[2].id
    assert middle is not None
    resumed = await (await stage.opened(child, after=middle, whole_tree=False)).until_over()
    assert resumed.events == own.events[3:]
    page = await stage.page(child, whole_tree=False)
    assert [entry.sequence for entry in page.entries] == own.sequences()
    for limit in range(1, 7):
        seen, after = [], 0
        while (page := await stage.page(child, whole_tree=False, after=after, limit=limit)).entries:
            seen += [entry.sequence for entry in page.entries]
            after = page.after
        assert seen == own.sequences(), limit
    assert {entry.event.run_id for entry in (await stage.page(root, whole_tree=False)).entries} == {
        root.subagent_id, child,
    }  # fmt: skip


async def test_a_quiet_run_gets_comments_and_its_end_all_the_same(stage: StreamStage) -> None:
    run = await stage.launch()
    opened = await stage.opened(run)
    await opened.until_comments(3)
    assert opened.reader.kinds() == ["run.created"]
    stage.worker.complete(run)
    assert (await opened.until_over()).sequences() == [1, 2, 3, 4, 5]


async def test_streams_of_one_tree_share_what_is_read(stage: StreamStage) -> None:
    run = await stage.launch()
    opened = [await stage.opened(run) for _ in range(20)]
    for each in opened:
        await each.until("run.created")
    assert stage.hub.watched == 1
    before = stage.worker.link.execute("INFO", "commandstats")
    stage.worker.complete(run)
    for each in opened:
        assert (await each.until_over()).sequences() == [1, 2, 3, 4, 5]
    assert stage.hub.watched == stage.hub.streams == 0
    assert before


async def test_a_stream_far_behind_catches_up_by_itself(stage: StreamStage) -> None:
    run = await stage.launch()
    first = await stage.opened(run)
    await first.until("run.created")
    log = stage.log_key(run)
    for n in range(3_000):
        entry = f'{{"e":"steer.queued","r":"{run.subagent_id}","t":1798761600000,"steer":"s{n}"}}'
        stage.worker.link.execute("RPUSH", log, entry)
    second = await stage.opened(run, after=100)
    stage.worker.complete(run)
    assert (await first.until_over()).sequences() == list(range(1, 3_006))
    assert (await second.until_over()).sequences() == list(range(101, 3_006))


async def test_a_place_beyond_the_log_is_a_gap_and_then_the_stream_goes_on(stage: StreamStage) -> None:
    run = await stage.launch()
    opened = await stage.opened(run, after=1_000)
    await opened.until("gap")
    (gap,) = opened.reader.events
    assert (gap.id, gap.data) == (1, {"from": 2, "to": 1_000})
    stage.worker.complete(run)
    assert (await opened.until_over()).sequences() == [2, 3, 4, 5]
    page = await stage.page(run, after=1_000)
    assert (page.entries[0:], page.after) == ([], 5)
    assert [(gap.first, gap.last) for gap in page.gaps] == [(6, 1_000)]
    ended = await (await stage.opened(run, after=1_000)).until_over()
    (gap,) = ended.events
    assert (gap.kind, gap.id, gap.data) == ("gap", 5, {"from": 6, "to": 1_000})


async def test_a_log_that_was_set_back_is_a_gap_even_if_it_has_grown_again(stage: StreamStage) -> None:
    run = await stage.launch()
    opened = await stage.opened(run)
    fence = stage.worker.claim(run)
    await opened.until("run.started")
    log = stage.log_key(run)
    other = f'{{"e":"steer.queued","r":"{run.subagent_id}","t":1798761600000,"steer":"s"}}'
    stage.worker.link.execute("LSET", log, 1, other)
    stage.worker.link.execute("RPUSH", log, other)
    await opened.until("steer.queued")
    assert opened.reader.kinds() == ["run.created", "run.started", "gap", "steer.queued"]
    gap, after = opened.reader.events[2:]
    assert (gap.id, gap.data, after.id) == (2, {"from": 2, "to": 2}, 3)
    stage.worker.link.execute("RPOP", log, 2)
    await opened.until("gap", 2)
    assert (opened.reader.events[-1].id, opened.reader.events[-1].data) == (1, {"from": 2, "to": 3})
    stage.worker.record(run, fence, stage.worker.boundary(run, fence))
    stage.worker.finish(run, fence)
    assert (await opened.until_over()).sequences()[-3:] == [2, 3, 4]


async def test_a_purge_that_blanks_what_was_told_last_is_no_gap(stage: StreamStage) -> None:
    run = await stage.launch()
    fence = stage.worker.claim(run)
    stage.worker.store.run(control.interrupt(stage.key(run), reason="secret"))
    opened = await stage.opened(run)
    await opened.until("cancel.requested")
    log = stage.log_key(run)
    told = stage.worker.link.execute("LINDEX", log, -1)
    stage.worker.link.execute("LSET", log, -1, told.replace(b"secret", b""))
    stage.worker.finish(run, fence)
    assert (await opened.until_over()).kinds() == [
        "run.created", "run.started", "cancel.requested", "run.finished",
    ]  # fmt: skip


async def test_a_log_that_is_gone_ends_the_stream_and_says_so(stage: StreamStage) -> None:
    run = await stage.launch()
    opened = await stage.opened(run)
    await opened.until("run.created")
    stage.worker.link.execute("FLUSHDB")
    reader = await opened.until_over()
    gap, end = reader.events[1:]
    assert (gap.kind, gap.data) == ("gap", {"from": 2, "to": None})
    assert (end.kind, end.id, end.data) == ("end", None, {"run_id": run.subagent_id, "state": None})


async def test_a_log_that_expired_before_its_run_is_a_gap_and_the_state_that_is_known(
    stage: StreamStage,
) -> None:
    run = await stage.launch()
    stage.worker.complete(run)
    stage.worker.link.execute("DEL", stage.log_key(run))
    reader = await (await stage.opened(run, after=2)).until_over()
    assert [(sent.kind, sent.data) for sent in reader.events] == [
        ("gap", {"from": 3, "to": None}),
        ("end", {"run_id": run.subagent_id, "state": "SUCCEEDED"}),
    ]
    page = await stage.page(run)
    assert (page.entries, [(gap.first, gap.last) for gap in page.gaps]) == ([], [(1, None)])


async def test_an_end_that_the_log_does_not_tell_is_found_at_the_next_comment(stage: StreamStage) -> None:
    run = await stage.launch()
    opened = await stage.opened(run)
    stage.worker.complete(run)
    log = stage.log_key(run)
    stage.worker.link.execute("RPOP", log)
    reader = await opened.until_over()
    assert reader.kinds()[-1] in ("end", "run.finished")
    again = await (await stage.opened(run, after=3)).until_over()
    assert [(sent.kind, sent.data) for sent in again.events[-1:]] == [
        ("end", {"run_id": run.subagent_id, "state": "SUCCEEDED"})
    ]


async def test_an_entry_that_cannot_be_read_is_a_gap_and_holds_up_nobody(stage: StreamStage) -> None:
    run = await stage.launch()
    opened = await stage.opened(run)
    log = stage.log_key(run)
    for entry in ("no json", '{"e":"run.dreamt","r":"x","t":1}', "[" * 5_000, '{"e":"run.started"}'):
        stage.worker.link.execute("RPUSH", log, entry)
    stage.worker.complete(run)
    reader = await opened.until_over()
    assert reader.sequences() == [1, 6, 7, 8, 9]
    gaps = [(sent.id, sent.data) for sent in reader.events if sent.kind == "gap"]
    assert gaps == [(n, {"from": n, "to": n}) for n in range(2, 6)]
    page = await stage.page(run)
    assert [entry.sequence for entry in page.entries] == [1, 6, 7, 8, 9]
    assert [(gap.first, gap.last) for gap in page.gaps] == [(n, n) for n in range(2, 6)]


async def test_what_a_model_or_user_wrote_stays_one_line(stage: StreamStage) -> None:
    run = await stage.launch()
    nasty = 'a\r\n\r\nevent: run.finished\ndata: {}\nid: 99\n\n\u2028\ud800"\x00'
    stage.worker.store.run(control.steer(stage.key(run), steer_id="s1", message=nasty, max_steers=5))
    stage.worker.store.run(control.cancel(stage.key(run), reason=nasty))
    await stage.lifecycle.cancel(run)
    reader = await (await stage.opened(run)).until_over()
    assert [sent.id for sent in reader.events] == list(range(1, len(reader.events) + 1))
    (missed,) = [sent for sent in reader.events if sent.kind == "steer.missed"]
    assert missed.data["data"]["text"] == nasty


async def test_no_more_streams_than_may_be(valkey_url: str) -> None:
    async with stream_stage(valkey_url, max_streams=2) as stage:
        run = await stage.launch()
        opened = [await stage.opened(run) for _ in range(2)]
        for each in opened:
            await each.until("run.created")
        with pytest.raises(Problem) as refused:
            await stage.open(run)
        assert (refused.value.code, refused.value.status) == ("TOO_MANY_STREAMS", 503)
        assert int(refused.value.headers["Retry-After"]) > 0
        await opened[0].close()
        assert await stage.open(run) is not None


async def test_a_client_that_goes_leaves_nothing_behind(stage: StreamStage) -> None:
    run = await stage.launch()
    before = len(asyncio.all_tasks())
    opened = [await stage.opened(run, deltas=True) for _ in range(10)]
    for each in opened:
        await each.until("run.created")
    for each in opened:
        await each.close()
    assert stage.hub.streams == stage.hub.watched == 0
    # The hub's own: the log reader, the channels, the renewal.
    assert len(asyncio.all_tasks()) <= before + 4


async def test_an_end_of_the_process_ends_each_stream_behind_a_whole_event(stage: StreamStage) -> None:
    run = await stage.launch()
    opened = await stage.opened(run)
    await opened.until("run.created")
    stage.service.stopping.set()
    reader = await opened.until_over()
    assert reader.sequences() == [1]
    with pytest.raises(Problem):
        await stage.open(run)
    assert stage.hub.streams == 0


async def test_a_page_is_as_long_as_asked_and_tells_where_to_go_on(stage: StreamStage) -> None:
    run = await stage.launch()
    stage.worker.complete(run)
    seen, after = [], 0
    while (page := await stage.page(run, after=after, limit=2)).entries:
        seen += [entry.sequence for entry in page.entries]
        assert len(page.entries) <= 2
        after = page.after
    assert (seen, after) == ([1, 2, 3, 4, 5], 5)


async def test_the_events_of_many_trees_come_to_their_own_streams(stage: StreamStage) -> None:
    runs = [await stage.launch(correlation_id=f"c{n}") for n in range(150)]
    opened = [await stage.opened(run) for run in runs]
    for run in runs:
        stage.worker.complete(run)
    async with asyncio.timeout(DEADLINE_S):
        for run, each in zip(runs, opened, strict=True):
            reader = await each.until_over()
            assert reader.sequences() == [1, 2, 3, 4, 5]
            assert {sent.data["run_id"] for sent in reader.events} == {run.subagent_id}
