"""Python's garbage collector in a process that makes and drops a few hundred objects for every run."""

from __future__ import annotations

import gc
from typing import Final

_PYTHONS_THRESHOLD: Final = (700, 10, 10)
_YOUNG: Final = 5_000
"""How many objects may be made, over those that went, before a collection of the young."""


def spare_the_collector() -> None:
    """Takes what was made so far out of collection, and has the young looked through less often.

    To be called when the process is ready: what was imported and set up stays for good, and every full
    collection would walk it. At Python's default a collection of the young comes every few runs, and finds
    nothing, for what a run makes goes with it. Both together are an eighth of
    what a run costs that does nothing. A threshold that somebody has chosen is left alone.
    """
    gc.collect()
    gc.freeze()
    if gc.get_threshold() == _PYTHONS_THRESHOLD:
        gc.set_threshold(_YOUNG, *_PYTHONS_THRESHOLD[1:])
