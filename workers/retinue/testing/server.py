"""The scripted server as a process of its own: `python -m retinue.testing.server script.json`.

It prints one JSON line, `{"url": ..., "base_url": ..., "pid": ...}`, when it accepts requests, and
runs until SIGTERM or SIGINT. script_file.py describes the file, control.py the endpoints through
which other processes read what it saw.
"""

import argparse
import json
import os
import resource
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from retinue.contract import SettingsError
from retinue.worker.extra import require_extra

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the server until a signal ends it.

    Returns:
        The exit code: 0 after a signal, 1 without aiohttp, 2 for a script file that cannot be used.
    """
    options = _parser().parse_args(arguments)
    try:
        require_extra("the scripted model server", ["aiohttp"])
    except SettingsError as fault:
        print(fault, file=sys.stderr)
        return 1
    from retinue.testing.scripted_server import ScriptedServer

    server = ScriptedServer(
        host=options.host, port=options.port, latency_s=options.latency, keep_bodies=not options.no_bodies
    )
    for path in options.scripts:
        try:
            server.load(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            print(f"{path}: {error}", file=sys.stderr)
            return 2
    _allow_many_connections()
    ended = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        ended.set()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    if options.with_parent:
        threading.Thread(target=_end_with_parent, args=(ended,), daemon=True).start()
    with server:
        print(json.dumps({"url": server.url, "base_url": server.base_url, "pid": os.getpid()}), flush=True)
        ended.wait()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m retinue.testing.server", description=__doc__)
    parser.add_argument("scripts", nargs="*", type=Path, help="script files (JSON)")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 = a free one (default)")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each reply's first byte")
    parser.add_argument("--no-bodies", action="store_true", help="keep counts and times only")
    parser.add_argument("--with-parent", action="store_true", help="end when standard input is closed")
    return parser


def _allow_many_connections() -> None:
    """Raise the limit of open files as far as it may be: each waiting client holds one."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _end_with_parent(ended: threading.Event) -> None:
    # Not through sys.stdin: a thread that holds its lock at exit aborts the interpreter.
    while os.read(0, 4096):
        pass
    ended.set()


if __name__ == "__main__":
    sys.exit(main())
