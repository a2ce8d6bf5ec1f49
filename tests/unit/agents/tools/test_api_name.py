from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.agents import DeclarationError
from retinue.agents.tools.api_name import api_name, api_names


@given(st.text())
def test_every_name_becomes_one_that_apis_accept(name: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", api_name(name))


def test_a_good_name_stays() -> None:
    assert api_name("look-up_2") == "look-up_2"


def test_two_names_that_become_the_same_are_refused() -> None:
    with pytest.raises(DeclarationError, match=r"'a b'.*'a_b'|'a_b'.*'a b'"):
        api_names(["a b", "a_b"], owner="agent 'x'")


def test_a_reserved_name_is_refused() -> None:
    with pytest.raises(DeclarationError, match="built-in"):
        api_names(["run agent"], owner="agent 'x'", reserved=["run_agent"])
