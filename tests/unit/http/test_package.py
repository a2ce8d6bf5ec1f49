from __future__ import annotations

import subprocess
import sys

import retinue.http


def test_the_public_names_are_pinned() -> None:
    assert retinue.http.__all__ == ["create_app"]


def test_it_imports_neither_worker_nor_models() -> None:
    code = (
        "import sys\nimport retinue.http, retinue.http.server\n"
        "wrong = ('retinue.worker', 'retinue.testing', 'openai', 'pyagentspec', 'retinue.cli')\n"
        "print([name for name in wrong if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
