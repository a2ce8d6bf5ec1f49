"""The requests of a launch of several: what is taken, and which one an error names."""

from __future__ import annotations

import pytest

from retinue.client import SubagentLaunchRequest, SubagentLifecycleError
from retinue.client.launching.requests import parsed_requests, request_named


def fault(requests: object) -> SubagentLifecycleError:
    with pytest.raises(SubagentLifecycleError) as caught:
        parsed_requests(requests)
    return caught.value


def test_requests_are_taken_from_any_iterable() -> None:
    request = SubagentLaunchRequest(goal="b")
    assert [each.goal for each in parsed_requests(iter([{"goal": "a"}, request]))] == ["a", "b"]


def test_of_several_the_one_at_fault_is_named() -> None:
    assert fault([{"goal": "a"}, {"goal": ""}]).field == "requests[1].goal"
    assert fault([{"goal": "a"}, 42]).field == "requests[1]"
    assert fault([{"goal": ""}]).field == "goal"


@pytest.mark.parametrize(
    "requests", [{"goal": "a"}, "goal", b"goal", 42, None, SubagentLaunchRequest(goal="a")]
)
def test_what_is_no_list_is_refused(requests: object) -> None:
    error = fault(requests)
    assert error.field == "requests"
    assert f"is of type {type(requests).__name__}" in error.message
    assert "list" in str(error.mend)


def test_an_error_about_no_single_field_names_the_request() -> None:
    with pytest.raises(SubagentLifecycleError) as caught, request_named(2, 3):
        raise SubagentLifecycleError("wrong")
    assert caught.value.field == "requests[2]"
