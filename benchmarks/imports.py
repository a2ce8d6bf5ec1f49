"""What `import retinue.client` costs an application, against the libraries that it stands on."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

CLIENT = "import retinue.client"
LIBRARIES = "import celery, redis, pydantic"


def import_ratio(rounds: int) -> tuple[float, float, float]:
    """Median seconds of a fresh interpreter that imports the client, the libraries, and their ratio.

    The two take turns, so that other load on the machine hits both. Both find bytecode, as whoever installed
    them has it.
    """
    times: dict[str, list[float]] = {CLIENT: [], LIBRARIES: []}
    with tempfile.TemporaryDirectory() as cache:
        for statement in times:
            _seconds(statement, cache)
        for _ in range(rounds):
            for statement in times:
                times[statement].append(_seconds(statement, cache))
        empty = min(_seconds("pass", cache) for _ in range(3))
    client, libraries = (statistics.median(times[statement]) - empty for statement in (CLIENT, LIBRARIES))
    return client, libraries, client / libraries


def _seconds(statement: str, cache: str) -> float:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", statement], check=True, env={**environment, "PYTHONPYCACHEPREFIX": cache}
    )
    return time.perf_counter() - started
