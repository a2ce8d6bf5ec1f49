"""This process's ownership of an embedded server: the lock that keeps the server alive."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

_guard = threading.Lock()
_held: dict[tuple[int, Path], tuple[int, int]] = {}
"""Descriptor and number of holders, by process id and lock file.

A POSIX lock belongs to the process, and closing any descriptor of the file drops it: so there is one
descriptor per file and process. The process id is part of the key because a forked child has the entry but
not the lock.
"""


def acquire(lock_file: Path) -> bool:
    """Become an owner; False while a server without owners is being shut down."""
    key = (os.getpid(), lock_file)
    with _guard:
        descriptor, holders = _held.get(key, (-1, 0))
        if holders == 0:
            descriptor = os.open(lock_file, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                os.close(descriptor)
                return False
        _held[key] = (descriptor, holders + 1)
        return True


def release(lock_file: Path) -> bool:
    """Stop being an owner; True if this was the last one, so that the server ends now."""
    key = (os.getpid(), lock_file)
    with _guard:
        descriptor, holders = _held.pop(key, (-1, 0))
        if holders > 1:
            _held[key] = (descriptor, holders - 1)
        if holders != 1:
            return False
        try:
            # Granted only when no other process shares the lock.
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            return False
        finally:
            os.close(descriptor)
