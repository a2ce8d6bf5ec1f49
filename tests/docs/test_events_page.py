"""The page on events against the events and settings that there are."""

from __future__ import annotations

import re

import pytest
from tests.docs.fenced import PROJECT

from retinue.broker.settings.http import HttpSettings
from retinue.contract import EVENT_KEYS, EventType
from retinue.worker.run.deltas import BEHIND_CHARS, EVERY_S

PAGE = (PROJECT / "docs" / "events.md").read_text()


@pytest.mark.parametrize("kind", EventType)
def test_each_type_has_a_row_with_its_members(kind: EventType) -> None:
    rows = [line for line in PAGE.splitlines() if re.match(rf"\| .*`{re.escape(kind)}`[^|]*\|", line)]
    told = set(re.findall(r"`(\w+)`", "".join(rows)))
    assert EVENT_KEYS[kind] <= told, kind


def test_the_limits_are_those_in_force() -> None:
    settings = HttpSettings()
    assert f"`stream_keep_alive_seconds` ({settings.stream_keep_alive_seconds:g} s)" in PAGE
    assert f"`stream_send_timeout_seconds` ({settings.stream_send_timeout_seconds:g} s)" in PAGE
    assert f"`max_streams` ({settings.max_streams:,})" in PAGE
    assert f"gathers pieces for {EVERY_S * 1000:g} ms" in PAGE
    assert f"more than {BEHIND_CHARS:,} characters" in PAGE
