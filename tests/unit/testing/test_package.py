"""The names that retinue.testing offers."""

import subprocess
import sys

import retinue.testing


def test_every_offered_name_exists_and_the_list_is_sorted() -> None:
    assert retinue.testing.__all__ == sorted(retinue.testing.__all__)
    for name in retinue.testing.__all__:
        assert getattr(retinue.testing, name).__name__ == name


def test_another_name_is_an_attribute_error() -> None:
    assert not hasattr(retinue.testing, "Server")


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, retinue.testing; print([m for m in ('aiohttp', 'pydantic') if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
