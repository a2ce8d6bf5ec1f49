"""Real worker processes for tests, with settings of their own.

What a crash, a freeze or a drain does can only be seen on a process; this starts one as a user does,
from the command line, and hands back its signals and its log.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict, Unpack

from retinue.testing.processes import ChildProcess

CELERY_COMMAND = (sys.executable, "-m", "celery", "-A", "retinue.worker", "worker")
"""The worker as Celery's own command starts it."""
RETINUE_COMMAND = (str(Path(sys.executable).with_name("retinue")), "worker")
"""The worker as the `retinue` command starts it."""

_READY = r"\bready\.$"
# What the desk has set must not leak into a test: neither its store nor its keys.
_FOREIGN_PREFIXES = ("RETINUE_", "OPENAI_", "CELERY_")


def worker_environment(
    settings: Mapping[str, object], *, model_url: str | None = None, import_paths: Sequence[Path] = ()
) -> dict[str, str]:
    """The environment of a process that has these settings, and none of the desk's.

    Args:
        settings: Values by the name of the setting (`lease_seconds`, `delegation__blocked_tools`); text
            is passed as it is, None is left out, anything else as JSON.
        model_url: Base URL of the provider `openai`; None means that there is no such provider.
        import_paths: Directories to import from before all others.
    """
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN_PREFIXES)
    }
    for name, value in settings.items():
        if value is not None:
            text = value if isinstance(value, str) else json.dumps(value)
            environment[f"RETINUE_{name.upper()}"] = text
    if model_url is not None:
        environment |= {"OPENAI_BASE_URL": model_url, "OPENAI_API_KEY": "test-key"}
    paths = [str(path) for path in import_paths]
    if inherited := environment.get("PYTHONPATH"):
        paths.append(inherited)
    if paths:
        environment["PYTHONPATH"] = os.pathsep.join(paths)
    return environment


class WorkerOptions(TypedDict, total=False):
    """How a worker differs from the usual one; each may be left out."""

    name: str  # distinguishes the workers of one test; default "worker"
    concurrency: int  # runs that it works on at a time; default 10
    queues: Sequence[str]  # queues to take work from; default: those of its agents
    settings: Mapping[str, object]  # see worker_environment
    model_url: str  # see worker_environment
    import_paths: Sequence[Path]  # see worker_environment
    command: Sequence[str]  # CELERY_COMMAND (the default) or RETINUE_COMMAND
    arguments: Sequence[str]  # further arguments of the command


class WorkerProcess(ChildProcess):
    """One Celery worker with Retinue's pool; `wait_until_ready` tells when it takes work.

    Args:
        store_url: The store, which is the broker too unless `settings` names another.
        directory: Where it runs and writes its log, `<name>.log`.
        options: See `WorkerOptions`.
    """

    def __init__(self, store_url: str, *, directory: Path, **options: Unpack[WorkerOptions]) -> None:
        self.name = options.get("name", "worker")
        flags = ["--concurrency", str(options.get("concurrency", 10))]
        flags += ["--hostname", f"{self.name}@%h", "--loglevel", "INFO"]
        if queues := options.get("queues"):
            flags += ["--queues", ",".join(queues)]
        super().__init__(
            [*options.get("command", CELERY_COMMAND), *flags, *options.get("arguments", ())],
            log=directory / f"{self.name}.log",
            cwd=directory,
            env=worker_environment(
                {"store_url": store_url, **options.get("settings", {})},
                model_url=options.get("model_url"),
                import_paths=options.get("import_paths", ()),
            ),
        )

    @property
    def is_ready(self) -> bool:
        """Whether it has begun to take work, and has not ended."""
        return self.running and re.search(_READY, self.log_text(), re.MULTILINE) is not None

    def wait_until_ready(self, timeout_s: float = 30.0) -> None:
        """Returns once the worker takes work.

        Raises:
            ProcessFailedError: If it ends, or `timeout_s` passes, before.
        """
        self.wait_for_log(_READY, timeout_s=timeout_s)


class WorkerFactory:
    """Starts workers for one test, and ends them with it.

    Args:
        directory: Where they run and write their logs.
        import_path: Directory of the test's own file, so that agents beside it can be imported.
    """

    def __init__(self, directory: Path, import_path: Path) -> None:
        self._directory = directory
        self._import_path = import_path
        self._started: list[WorkerProcess] = []

    def __call__(
        self,
        store_url: str,
        *,
        agents: Sequence[str] = (),
        ready: bool = True,
        **options: Unpack[WorkerOptions],
    ) -> WorkerProcess:
        """Starts a worker and, unless `ready` is False, waits until it takes work.

        Args:
            store_url: The store and broker.
            agents: Modules with agents.
            ready: False returns at once, for tests of a start that fails.
            options: See `WorkerOptions`; the default name is numbered.

        Raises:
            ProcessFailedError: If it does not come up.
        """
        options.setdefault("name", f"worker{len(self._started) + 1}")
        options["settings"] = {"agents": ",".join(agents) or None, **options.get("settings", {})}
        options["import_paths"] = [self._import_path, *options.get("import_paths", ())]
        worker = WorkerProcess(store_url, directory=self._directory, **options)
        self._started.append(worker)
        if ready:
            worker.wait_until_ready()
        return worker

    def close(self) -> None:
        """Kills what still runs, and prints the end of each log, which pytest shows if the test failed."""
        for worker in self._started:
            worker.close()
            print(worker.failure("was closed"))
