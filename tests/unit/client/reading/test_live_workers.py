"""Which worker a name means."""

from __future__ import annotations

import pytest

from retinue.broker.catalogue import WorkerEntry
from retinue.client.reading.live_workers import LiveWorker, named


def live(process: str, host: str, pid: int, name: str) -> LiveWorker:
    return LiveWorker(WorkerEntry(process, host, pid, name=name), runs=0, lease_ms=1000, drain_asked=False)


ONE = live("aa11", "alpha", 7, "celery@alpha")
TWIN = live("ab22", "alpha", 8, "celery@alpha")
NAMELESS = live("cc33", "beta", 7, "")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("celery@alpha", [ONE, TWIN]),
        ("alpha:7", [ONE]),
        ("beta:7", [NAMELESS]),
        ("ab22", [TWIN]),
        ("a", [ONE, TWIN]),
        ("cc", [NAMELESS]),
        ("alpha", []),
        ("celery", []),
        ("", []),
    ],
)
def test_a_name_is_celerys_or_host_and_pid_or_the_beginning_of_the_process_id(
    name: str, meant: list[LiveWorker]
) -> None:
    assert named([ONE, TWIN, NAMELESS], name) == meant
