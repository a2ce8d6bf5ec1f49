"""Whose runs a facade may act on."""

from __future__ import annotations

import pytest

from retinue.client import ErrorCode, SubagentLifecycleError
from retinue.client.scope import Scope
from retinue.store.record import Record

OURS, THEIRS = Record({"sess": "ours"}), Record({"sess": "theirs"})


def test_a_session_owns_its_own_runs_only() -> None:
    scope = Scope.checked("_", "ours")
    assert (scope.owns(OURS), scope.owns(THEIRS)) == (True, False)
    assert scope.launching_session() == "ours"


def test_an_operator_owns_all_and_launches_none() -> None:
    scope = Scope.checked("_", None, is_operator=True)
    assert scope.owns(OURS)
    assert scope.owns(THEIRS)
    with pytest.raises(SubagentLifecycleError, match="operator") as caught:
        scope.launching_session()
    assert caught.value.code == ErrorCode.NO_PARENT


def test_nobody_owns_nothing() -> None:
    scope = Scope.checked("_", None)
    assert not scope.owns(OURS)
    with pytest.raises(SubagentLifecycleError) as caught:
        scope.launching_session()
    assert caught.value.code == ErrorCode.NO_PARENT


def test_only_an_operator_lists_another_session() -> None:
    assert Scope.checked("_", "ours").listed_session(None) == "ours"
    assert Scope.checked("_", "ours").listed_session("ours") == "ours"
    assert Scope.checked("_", None, is_operator=True).listed_session("theirs") == "theirs"
    for scope, asked in (
        (Scope.checked("_", "ours"), "theirs"),
        (Scope.checked("_", None, is_operator=True), None),
        (Scope.checked("_", None), None),
        (Scope.checked("_", "ours"), 42),
    ):
        with pytest.raises(SubagentLifecycleError) as caught:
            scope.listed_session(asked)
        assert caught.value.field == "session_id"


@pytest.mark.parametrize(("tenant", "session"), [("", "s"), ("a b", "s"), (None, "s"), ("_", ""), ("_", 5)])
def test_improper_names_are_refused(tenant: object, session: object) -> None:
    with pytest.raises(SubagentLifecycleError):
        Scope.checked(tenant, session)


@pytest.mark.parametrize("run_id", [None, 5, "", "sa-p07-short", "sa-p64-" + "a" * 26])
def test_what_is_no_run_id_leads_nowhere(run_id: object) -> None:
    assert Scope.checked("_", "ours").run_key(run_id) is None
