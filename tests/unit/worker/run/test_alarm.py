"""The alarm of a run: an event, and a call for whoever waits for something else as well."""

from __future__ import annotations

import asyncio

from retinue.worker.run.alarm import Alarm


async def test_it_wakes_those_who_await_it_and_stays_raised() -> None:
    alarm = Alarm()
    waiting = asyncio.create_task(alarm.wait())
    await asyncio.sleep(0)
    alarm.set()
    assert await waiting
    assert alarm.is_set()


async def test_listeners_are_called_at_each_alarm_until_they_are_removed() -> None:
    alarm, heard = Alarm(), list[str]()

    def first() -> None:
        heard.append("first")
        alarm.remove_listener(first)

    alarm.add_listener(first)
    alarm.add_listener(lambda: heard.append("second"))
    alarm.set()
    alarm.set()
    assert heard == ["first", "second", "second"]
