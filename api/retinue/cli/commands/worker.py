"""`retinue worker`: Celery's worker program with Retinue's app, in this process."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

CELERY_APP = "retinue.worker"


def run_worker(arguments: Sequence[str]) -> None:
    """Becomes a worker; ends with the exit code of Celery's program.

    Args:
        arguments: modules with agents, and options of `celery worker`, in any order.
    """
    from retinue.broker.settings import reset_settings

    modules, options = split_arguments(arguments)
    if modules:
        os.environ["RETINUE_AGENTS"] = ",".join(modules)
        reset_settings()
    # Celery's script puts it there for the time of its own imports only; agents are imported later.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    run_celery(["-A", CELERY_APP, "worker", *options])


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Modules and Celery's options, told apart as Celery's own parser does: it knows which take a value."""
    from celery.bin.worker import worker
    from click import Context

    context = Context(worker, ignore_unknown_options=True, allow_extra_args=True, resilient_parsing=True)
    # Words stand for themselves by their place, because a module may have the name of an option's value.
    words = [word if word.startswith("-") else str(at) for at, word in enumerate(arguments)]
    _, rest, _ = worker.make_parser(context).parse_args(words)
    places = [int(word) for word in rest if not word.startswith("-")]
    options = [word for at, word in enumerate(arguments) if at not in places]
    return [arguments[at] for at in places], options


def run_celery(arguments: Sequence[str]) -> None:
    """Runs Celery's program in this process; it does not return."""
    from celery.__main__ import main as celery_main

    # What is not in the arguments of the process itself: nobody sees it in a list of processes.
    sys.argv = ["celery", *arguments]
    sys.exit(celery_main())
