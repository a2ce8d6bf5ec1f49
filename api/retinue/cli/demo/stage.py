"""What `retinue demo` runs on: a store, a model and two worker processes, all of its own."""

from __future__ import annotations

import importlib.util
import os
import signal
import tempfile
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from retinue.cli.demo.example import Example
from retinue.cli.exits import ExitCode
from retinue.cli.output import say

if TYPE_CHECKING:
    from types import FrameType

    from retinue.broker.settings import Settings
    from retinue.testing.workers import WorkerProcess

LEAD_QUEUE: Final = "lead"
SPECIALISTS_QUEUE: Final = "specialists"
KEY_VARIABLE: Final = "OPENAI_API_KEY"
_DRAIN_S: Final = 5.0
_READY_S: Final = 60.0
_SLOTS: Final = {LEAD_QUEUE: 1, SPECIALISTS_QUEUE: 2}


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage that is set.

    Args:
        settings: with which this process launches.
        agent: the team's name.
        is_scripted: whether the model is a scripted one.
    """

    settings: Settings
    agent: str
    is_scripted: bool


@contextmanager
def set_stage(example: Example, checkout: Path) -> Generator[Stage]:
    """Starts everything, and at the end leaves no process and no file behind.

    Args:
        example: the team.
        checkout: the directory that its tools read.

    Raises:
        RetinueError: something could not be started; the text says what.
    """
    from retinue.agents.agentspec.loading import load_agent_spec
    from retinue.broker.embedded.server import EmbeddedValkey
    from retinue.broker.settings import Settings

    with ExitStack() as stack:
        stack.enter_context(_ended_by_signals())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="retinue-demo-")))
        stack.enter_context(_settings_of_its_own(folder, checkout))
        agent = load_agent_spec(example.spec).name
        server = stack.enter_context(EmbeddedValkey(folder / "valkey"))
        say(f"store    embedded Valkey on {server.url.rpartition('@')[2]}")
        model = _model(stack, example)
        # Two queues, each served by one process: so the tree must cross from one to the other.
        routes = {agent: LEAD_QUEUE, "*": SPECIALISTS_QUEUE}
        options: dict[str, Any] = {
            "agents": f"{example.package}.agents",
            "routes": routes,
            "drain_seconds": _DRAIN_S,
            **model,
        }
        _start_workers(stack, server.url, example, folder, options)
        yield Stage(
            Settings.read(store_url=server.url, routes=routes), agent, not os.environ.get(KEY_VARIABLE)
        )


def _model(stack: ExitStack, example: Example) -> Mapping[str, str]:
    """Starts the model, and gives the workers' settings for it: the provider `openai`."""
    if key := os.environ.get(KEY_VARIABLE):
        say(f"model    a real one, for {KEY_VARIABLE} is set: this costs money")
        base_url = os.environ.get("OPENAI_BASE_URL")
        return {"providers__openai__api_key": key} | (
            {"providers__openai__base_url": base_url} if base_url else {}
        )
    from retinue.testing import ScriptedServer

    server = ScriptedServer()
    _script_of(example).add_scripts(server)
    stack.enter_context(server)
    say(f"model    a scripted one on {server.url}; set {KEY_VARIABLE} for a real one")
    return {"providers__openai__api_key": "none", "providers__openai__base_url": server.base_url}


def _script_of(example: Example) -> Any:
    file = example.folder / "script.py"
    spec = importlib.util.spec_from_file_location(f"{example.package}_script", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _start_workers(
    stack: ExitStack, url: str, example: Example, folder: Path, options: Mapping[str, object]
) -> None:
    from retinue.testing.workers import WorkerProcess

    workers: list[WorkerProcess] = []
    stack.callback(_stop_workers, workers)
    for queue, slots in _SLOTS.items():
        worker = WorkerProcess(
            url,
            directory=folder,
            name=f"{queue}-{os.getpid()}",
            queues=[queue],
            concurrency=slots,
            settings=options,
            import_paths=[example.folder.parent],
        )
        workers.append(worker)
        say(f"worker   pid {worker.pid}, queue {queue}, {slots} run(s) at a time")
    for worker in workers:
        worker.wait_until_ready(_READY_S)


def _stop_workers(workers: list[WorkerProcess]) -> None:
    from retinue.testing.processes import ProcessFailedError

    for worker in workers:
        worker.terminate()
    for worker in workers:
        with suppress(ProcessFailedError):
            worker.wait(_DRAIN_S * 2)
        worker.close()


@contextmanager
def _settings_of_its_own(folder: Path, checkout: Path) -> Generator[None]:
    """Hides the desk's settings and file, of which any might lead the demo elsewhere."""
    before = dict(os.environ)
    empty = folder / "retinue.toml"
    empty.touch()
    for name in before:
        if name.startswith("RETINUE_"):
            del os.environ[name]
    os.environ |= {"RETINUE_CONFIG": str(empty), "CHECKOUT_ROOT": str(checkout)}
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _ended_by_signals() -> Generator[None]:
    """Turns signals that would end the process at once into an exit that stops what was started."""

    def on_signal(_number: int, _frame: FrameType | None) -> NoReturn:
        raise SystemExit(ExitCode.PROBLEM)

    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, on_signal) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
