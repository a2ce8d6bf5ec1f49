"""What `import retinue.client` costs an application, against the libraries that it stands on."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

CLIENT = "import retinue.client"
LIBRARIES = "import celery, redis, pydantic"


def import_ratio(rounds: int) -> tuple[float, float, float]:
    """Median seconds of a fresh interpreter that imports the client, the libraries, and their ratio.

    The two take turns, so that other load on the machine hits both.
    """
    times: dict[str, list[float]] = {CLIENT: [], LIBRARIES: []}
    for _ in range(rounds):
        for statement in times:
            started = time.perf_counter()
            subprocess.run([sys.executable, "-c", statement], check=True)
            times[statement].append(time.perf_counter() - started)
    empty = min(_empty() for _ in range(3))
    client, libraries = (statistics.median(times[statement]) - empty for statement in (CLIENT, LIBRARIES))
    return client, libraries, client / libraries


def _empty() -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.perf_counter() - started
