from __future__ import annotations

from pathlib import Path

import pytest

from retinue.cli.demo.example import EXAMPLE, ExampleMissingError, find_example


def test_the_example_of_the_checkout_is_found_from_anywhere_in_it(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(pytestconfig.rootpath / "tests" / "unit")

    example = find_example(None)
    assert example.folder == pytestconfig.rootpath / EXAMPLE
    assert example.package == "checkout_review"
    assert example.checkout == pytestconfig.rootpath


def test_an_installation_without_a_checkout_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("retinue.cli.demo.example.__file__", str(tmp_path / "site-packages" / "example.py"))

    with pytest.raises(ExampleMissingError) as missing:
        find_example(None)
    assert missing.value.mend is not None
    assert "--spec" in missing.value.mend


def test_a_folder_that_lacks_a_part_names_it(tmp_path: Path) -> None:
    (tmp_path / "team.yaml").touch()
    (tmp_path / "agents.py").touch()

    with pytest.raises(ExampleMissingError, match=r"lacks tools\.py, script\.py"):
        find_example(tmp_path / "team.yaml")
    for name in ("tools.py", "script.py"):
        (tmp_path / name).touch()
    with pytest.raises(ExampleMissingError, match=r"lacks other\.yaml"):
        find_example(tmp_path / "other.yaml")
