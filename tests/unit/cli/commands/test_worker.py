from __future__ import annotations

import pytest

from retinue.cli.commands.worker import split_arguments


@pytest.mark.parametrize(
    ("given", "modules", "options"),
    [
        ("", "", ""),
        ("shop.agents", "shop.agents", ""),
        ("a b -c 5", "a b", "-c 5"),
        ("-c 5 a -Q x,y b -E", "a b", "-c 5 -Q x,y -E"),
        ("--hostname w@%h a --loglevel=INFO", "a", "--hostname w@%h --loglevel=INFO"),
        ("-n a a", "a", "-n a"),
        ("a -n a", "a", "-n a"),
        ("-Ofair a -c5", "a", "-Ofair -c5"),
        ("-P solo a", "a", "-P solo"),
    ],
)
def test_modules_are_told_from_the_values_of_celerys_options(given: str, modules: str, options: str) -> None:
    assert split_arguments(given.split()) == (modules.split(), options.split())
