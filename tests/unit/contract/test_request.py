from __future__ import annotations

import json
import math
import pickle
from collections import OrderedDict
from enum import IntEnum, StrEnum
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from retinue.contract import (
    CONTEXT_MAX_CHARS,
    GOAL_MAX_CHARS,
    INPUTS_MAX_BYTES,
    JSON_MAX_DEPTH,
    METADATA_MAX_BYTES,
    ErrorCode,
    LaunchLimits,
    OnDone,
    OnDuplicate,
    OnParentEnd,
    Priority,
    Role,
    SubagentLaunchRequest,
    SubagentLifecycleError,
    Webhook,
    canonical_json,
    request_digest,
)

parse = SubagentLaunchRequest.parse


def refusal(**fields: object) -> SubagentLifecycleError:
    """The error for these fields, all others being right; it must name field, limit and mend."""
    with pytest.raises(SubagentLifecycleError) as caught:
        parse({"goal": "Review it.", **fields})
    error = caught.value
    assert error.field
    assert error.limit
    assert error.mend
    assert error.field in str(error)
    assert error.limit in str(error)
    assert error.mend in str(error)
    assert error.code is ErrorCode.INVALID_REQUEST
    return error


def nested(depth: int) -> object:
    value: object = {}
    for _ in range(depth - 1):
        value = {"k": value}
    return value


def test_a_goal_is_enough() -> None:
    request = parse(goal="Review it.")
    assert request.role is Role.LEAF
    assert request.priority is Priority.NORMAL
    assert request.on_duplicate is OnDuplicate.RAISE
    assert request.on_parent_end is OnParentEnd.CANCEL
    assert request.allowed_toolsets is None
    assert request.blocked_tools == ()
    assert request.metadata == {}


def test_a_request_a_mapping_and_keywords_mean_the_same() -> None:
    fields: dict[str, Any] = {
        "goal": "Review it.",
        "correlation_id": "review-42",
        "allowed_toolsets": ["file"],
    }
    made = parse(**fields)
    assert (
        made
        == parse(fields)
        == parse(MappingProxyType(fields))
        == parse(made)
        == SubagentLaunchRequest(**fields)
    )


def test_every_field_goes_through_json_and_comes_back_equal() -> None:
    request = parse(
        goal="Prüfe es. 日本",
        context="",
        role="orchestrator",
        model="gpt-5",
        provider="openai",
        allowed_toolsets=("file", "web"),
        blocked_tools=["rm"],
        working_directory="a/b",
        timeout_seconds=2,
        parent_session_id="s",
        correlation_id="c",
        metadata={"k": [1, 2.5, None, True, {"x": "y"}]},
        agent="Price Finder",
        inputs={"city": "Berlin"},
        max_iterations=3,
        on_duplicate="return",
        on_parent_end="abandon",
        on_done={"task": "shop.done", "queue": "q"},
        webhook={"url": "https://shop.example/hooks"},
        limits={"max_depth": 0},
        priority="high",
    )
    assert parse(json.loads(json.dumps(request.to_dict()))) == request
    assert parse(json.loads(request.to_json())) == request
    assert pickle.loads(pickle.dumps(request)) == request
    assert set(request.to_dict()) == set(SubagentLaunchRequest.model_fields)


def test_every_field_of_every_model_has_a_check() -> None:
    for kind in (SubagentLaunchRequest, LaunchLimits, OnDone, Webhook):
        assert set(kind.checks) == set(kind.model_fields)


def test_the_first_fault_in_the_contracts_order_is_the_one_named() -> None:
    faults: dict[str, object] = {
        "goal": "",
        "context": 1,
        "role": "boss",
        "timeout_seconds": 0,
        "working_directory": "..",
        "blocked_tools": "rm",
        "metadata": [],
        "allowed_toolsets": "file",
        "parent_session_id": "{",
        "correlation_id": "c" * 201,
    }
    for field in list(faults):
        with pytest.raises(SubagentLifecycleError) as caught:
            parse({"goal": "fine", **faults})
        assert caught.value.field == field
        del faults[field]
    parse(goal="fine", **faults)


def test_an_unknown_field_is_named_with_those_near_to_it() -> None:
    error = refusal(alowed_toolsets=["file"])
    assert error.field == "alowed_toolsets"
    assert error.mend == "use allowed_toolsets or blocked_tools instead"


@pytest.mark.parametrize("key", [1, None, ("goal",), b"goal", "", "\ud800", "k" * 100_000])
def test_a_key_that_is_no_field_is_refused_whatever_it_is(key: object) -> None:
    with pytest.raises(SubagentLifecycleError, match="no field"):
        parse({"goal": "x", key: 1})


@pytest.mark.parametrize("value", [42, "goal", b"x", ["goal"], object(), SubagentLaunchRequest])
def test_a_value_of_another_kind_is_refused_with_the_kinds_expected(value: object) -> None:
    with pytest.raises(SubagentLifecycleError, match="SubagentLaunchRequest or a mapping"):
        parse(value)


def test_a_value_and_keywords_together_are_refused() -> None:
    with pytest.raises(SubagentLifecycleError, match="both"):
        parse({"goal": "x"}, goal="y")


@pytest.mark.parametrize("make", [parse, SubagentLaunchRequest])
def test_a_missing_goal_is_named(make: Any) -> None:
    with pytest.raises(SubagentLifecycleError, match="goal: is missing"):
        make()


@pytest.mark.parametrize(("field", "largest"), [("goal", GOAL_MAX_CHARS), ("context", CONTEXT_MAX_CHARS)])
def test_a_text_may_be_as_long_as_its_limit_counted_in_characters(field: str, largest: int) -> None:
    parse({"goal": "x", field: "𝄞" * largest})
    error = refusal(**{field: "x" * (largest + 1)})
    assert error.field == field
    assert f"{largest:,}" in str(error.limit)
    assert f"{largest + 1:,}" in error.message


@pytest.mark.parametrize("goal", ["", "  \n\t\u3000", None, 5, b"x", ["x"]])
def test_a_goal_that_says_nothing_is_refused(goal: object) -> None:
    assert refusal(goal=goal).field == "goal"


TEXTS = [
    "goal",
    "context",
    "model",
    "provider",
    "parent_session_id",
    "correlation_id",
    "agent",
    "working_directory",
]


@pytest.mark.parametrize("bad", ["a\0b", "a\ud800b"])
@pytest.mark.parametrize("field", TEXTS)
def test_no_text_holds_a_nul_or_a_lone_surrogate(field: str, bad: str) -> None:
    assert refusal(**{field: bad}).field == field


@pytest.mark.parametrize("bad", ["a\0b", "a\ud800b"])
def test_no_text_within_a_field_holds_a_nul_or_a_lone_surrogate(bad: str) -> None:
    assert refusal(metadata={"k": [bad]}).field == "metadata"
    assert refusal(metadata={bad: 1}).field == "metadata"
    assert refusal(inputs={"k": bad}).field == "inputs"
    assert refusal(allowed_toolsets=["a", bad]).field == "allowed_toolsets[1]"
    assert refusal(blocked_tools=[bad]).field == "blocked_tools[0]"
    assert refusal(on_done={"task": bad}).field == "on_done.task"


@pytest.mark.parametrize("field", ["model", "provider", "parent_session_id", "correlation_id"])
def test_an_empty_name_is_an_absent_one(field: str) -> None:
    assert getattr(parse({"goal": "x", field: ""}), field) is None


@pytest.mark.parametrize("role", ["boss", "LEAF", "", None, 1, ["leaf"]])
def test_a_role_is_leaf_or_orchestrator(role: object) -> None:
    assert refusal(role=role).limit == "'leaf' or 'orchestrator'"


@pytest.mark.parametrize("field", ["priority", "on_duplicate", "on_parent_end"])
@pytest.mark.parametrize("value", ["never", "", None, True])
def test_a_choice_names_its_values(field: str, value: object) -> None:
    assert refusal(**{field: value}).field == field


def test_no_toolsets_is_not_the_same_as_the_parents() -> None:
    assert parse(goal="x", allowed_toolsets=()).allowed_toolsets == ()
    assert parse(goal="x", allowed_toolsets=[]).allowed_toolsets == ()
    assert parse(goal="x", allowed_toolsets=None).allowed_toolsets is None


@pytest.mark.parametrize(
    "value", ["file", b"file", 5, {"file": 1}, iter(["file"]), ["file", 5], [""], [None], ["x" * 201]]
)
@pytest.mark.parametrize("field", ["allowed_toolsets", "blocked_tools"])
def test_names_are_a_list_of_texts(field: str, value: object) -> None:
    assert str(refusal(**{field: value}).field).startswith(field)


def test_names_have_a_highest_count_and_no_repetitions() -> None:
    assert refusal(blocked_tools=[f"t{n}" for n in range(1_001)]).field == "blocked_tools"
    assert parse(goal="x", blocked_tools=["b", "a", "b"]).blocked_tools == ("b", "a")
    assert parse(goal="x", blocked_tools=frozenset("cab")).blocked_tools == ("a", "b", "c")


@pytest.mark.parametrize(
    "value",
    [0, -1, 0.0, -0.0, math.nan, math.inf, -math.inf, True, "5", None.__class__, 10**400, 1e300, 315_360_001],
)
def test_a_timeout_is_a_positive_finite_number(value: object) -> None:
    assert refusal(timeout_seconds=value).field == "timeout_seconds"


@pytest.mark.parametrize("value", [1, 0.001, 315_360_000])
def test_a_timeout_becomes_a_float(value: float) -> None:
    timeout = parse(goal="x", timeout_seconds=value).timeout_seconds
    assert timeout == value
    assert type(timeout) is float


@pytest.mark.parametrize(
    "path",
    [
        "",
        " ",
        "/",
        "/etc",
        "//x",
        "..",
        "a/..",
        "a/../b",
        "../a",
        "a\\b",
        "C:",
        "c:/x",
        "~",
        "~root/x",
        "./~/x",
        "./c:/x",
        "a\nb",
        "x" * 1_025,
        5,
        b"a",
    ],
)
def test_a_working_directory_that_could_escape_is_refused(path: object) -> None:
    assert refusal(working_directory=path).field == "working_directory"


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("a/b", "a/b"),
        ("./a//b/./", "a/b"),
        (".", "."),
        ("...", "..."),
        ("a..b", "a..b"),
        (PurePosixPath("a/b"), "a/b"),
        ("報告", "報告"),
    ],
)
def test_a_relative_working_directory_is_kept_in_its_plain_form(path: object, kept: str) -> None:
    assert parse(goal="x", working_directory=path).working_directory == kept


@given(st.text(alphabet="./ab~:\\", max_size=12))
def test_an_accepted_working_directory_never_leaves_its_root(path: str) -> None:
    try:
        kept = parse(goal="x", working_directory=path).working_directory
    except SubagentLifecycleError:
        return
    assert kept is not None
    assert not PurePosixPath(kept).is_absolute()
    assert ".." not in PurePosixPath(kept).parts
    assert parse(goal="x", working_directory=kept).working_directory == kept


@pytest.mark.parametrize(
    ("field", "largest"), [("metadata", METADATA_MAX_BYTES), ("inputs", INPUTS_MAX_BYTES)]
)
def test_json_may_be_as_large_as_its_limit_counted_with_ascii_escapes(field: str, largest: int) -> None:
    room = largest - len(json.dumps({"k": ""}))
    parse({"goal": "x", field: {"k": "x" * room}})
    assert f"{largest:,}" in str(refusal(**{field: {"k": "x" * (room + 1)}}).limit)
    parse({"goal": "x", field: {"k": "é" * (room // 6)}})
    assert refusal(**{field: {"k": "é" * (room // 6 + 1)}}).field == field


def test_json_may_be_nested_to_its_limit_only() -> None:
    parse(goal="x", metadata=nested(JSON_MAX_DEPTH))
    assert str(JSON_MAX_DEPTH) in str(refusal(metadata=nested(JSON_MAX_DEPTH + 1)).limit)
    assert refusal(metadata=nested(100_000)).field == "metadata"


def test_json_that_contains_itself_or_multiplies_is_refused_at_once() -> None:
    loop: dict[str, object] = {}
    loop["k"] = loop
    assert refusal(metadata=loop).field == "metadata"
    bomb: object = "x"
    for _ in range(60):
        bomb = [bomb] * 10
    assert refusal(metadata={"k": bomb}).field == "metadata"
    assert refusal(metadata={"k": ["x" * 1_000_000] * 1_000}).field == "metadata"


@pytest.mark.parametrize(
    "bad",
    [math.nan, -math.inf, b"x", object(), {1}, {1: 2}, {None: 1}, 1 << 1_024, 1j],
    ids=lambda v: type(v).__name__,
)
def test_what_json_has_no_form_for_is_refused(bad: object) -> None:
    for field in ("metadata", "inputs"):
        assert refusal(**{field: {"k": bad}}).field == field


@pytest.mark.parametrize("value", ["{}", [], 5, b"{}", True])
def test_metadata_is_a_mapping(value: object) -> None:
    assert refusal(metadata=value).field == "metadata"


def test_metadata_is_a_plain_copy_that_later_changes_do_not_reach() -> None:
    class Colour(StrEnum):
        RED = "red"

    class Level(IntEnum):
        HIGH = 3

    inner = [1]
    given_metadata = OrderedDict(a=inner, b=(Colour.RED, Level.HIGH), c=MappingProxyType({"x": 1 << 1_000}))
    request = parse(goal="x", metadata=given_metadata)
    inner.append(2)
    assert request.metadata == {"a": [1], "b": ["red", 3], "c": {"x": 1 << 1_000}}
    assert type(request.metadata["b"][0]) is str  # pyright: ignore[reportIndexIssue, reportOptionalSubscript, reportArgumentType, reportCallIssue]
    assert parse(goal="x", metadata=None).metadata == {}


@pytest.mark.parametrize("value", [0, -1, True, 1.0, "3", 1_000_001])
def test_max_iterations_is_a_count_from_one_on(value: object) -> None:
    assert refusal(max_iterations=value).field == "max_iterations"


def test_limits_are_counts_and_name_their_place() -> None:
    assert parse(goal="x", limits={"max_depth": 0, "max_tree": None}).limits == LaunchLimits(max_depth=0)
    assert refusal(limits={"max_children": -1}).field == "limits.max_children"
    assert refusal(limits={"max_child": 1}).field == "limits.max_child"
    assert refusal(limits=[1]).field == "limits"
    with pytest.raises(SubagentLifecycleError, match="max_tool_calls"):
        LaunchLimits(max_tool_calls=True)


def test_on_done_is_a_task_and_perhaps_a_queue() -> None:
    assert parse(goal="x", on_done={"task": "t"}).on_done == OnDone(task="t")
    assert refusal(on_done={}).field == "on_done.task"
    assert refusal(on_done={"task": ""}).field == "on_done.task"
    assert refusal(on_done={"task": "t", "queue": 5}).field == "on_done.queue"
    assert refusal(on_done={"task": "t", 5: 6}).message.startswith("is no field of OnDone")
    assert refusal(on_done="t").field == "on_done"


def test_a_webhook_is_a_url() -> None:
    assert parse(goal="x", webhook={"url": "https://h.example/a?b=c"}).webhook == Webhook(
        url="https://h.example/a?b=c"
    )
    assert refusal(webhook={}).field == "webhook.url"
    assert refusal(webhook="https://h.example").field == "webhook"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "h.example",
        "//h.example/a",
        "ftp://h.example/a",
        "file:///etc/passwd",
        "https://",
        "https:///a",
        "https://h.example:0/",
        "https://h.example:70000/",
        "https://h.example:x/",
        "https://[::1/",
        "https://user@h.example/",
        "https://user:pass@h.example/",
        "https://h.example/#a",
        "https://h.example/a b",
        "https://h.example/\r\nX: y",
        "https://h\u00e4.example/",
        "https://h.example\\@evil.example/",
        "https://h.example/" + "a" * 2_048,
        5,
    ],
)
def test_a_webhooks_url_has_a_host_and_nothing_that_hides_another(url: object) -> None:
    assert refusal(webhook={"url": url}).field == "webhook.url"


def test_classes_of_priority_come_after_resumed_runs() -> None:
    assert [Priority.HIGH.step, Priority.NORMAL.step, Priority.LOW.step] == [3, 6, 9]


def test_a_request_changed_behind_pydantics_back_is_checked_again() -> None:
    request = parse(goal="x", metadata={"k": 1})
    with pytest.raises(SubagentLifecycleError, match="goal"):
        parse(request.model_copy(update={"goal": " "}))
    with pytest.raises(SubagentLifecycleError, match="goal"):
        parse(SubagentLaunchRequest.model_construct(context="x"))
    request.metadata["k"] = math.nan  # pyright: ignore[reportIndexIssue]
    with pytest.raises(SubagentLifecycleError, match="metadata"):
        parse(request)


def test_a_request_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        parse(goal="x").goal = "y"


def test_no_prompt_stands_in_a_repr_or_in_an_error() -> None:
    secret = "hush-hush"
    request = parse(goal=secret, context=secret, metadata={"k": secret}, inputs={"k": secret})
    assert secret not in repr(request) + str(request)
    for fields in (
        {"goal": secret + "\0"},
        {"context": [secret]},
        {"metadata": {"k": secret + "\0"}},
        {"role": secret},
    ):
        with pytest.raises(SubagentLifecycleError) as caught:
            parse({"goal": "x", **fields})
        error = caught.value
        assert secret not in repr(error) + str(error) + repr(vars(error))
        assert error.__context__ is None
        assert error.__cause__ is None


def test_equal_work_has_an_equal_digest() -> None:
    one = parse(goal="x", metadata={"a": 1, "b": 2}, timeout_seconds=5, on_duplicate="return")
    two = parse(goal="x", metadata={"b": 2, "a": 1}, timeout_seconds=5.0, role="leaf", model="")
    assert request_digest(one) == request_digest(two)


@pytest.mark.parametrize(
    "fields",
    [
        {"goal": "y"},
        {"context": ""},
        {"role": "orchestrator"},
        {"allowed_toolsets": ()},
        {"metadata": {"a": 1}},
        {"limits": {}},
        {"on_parent_end": "abandon"},
        {"priority": "low"},
        {"timeout_seconds": 1},
    ],
)
def test_other_work_has_another_digest(fields: dict[str, object]) -> None:
    assert request_digest(parse({"goal": "x", **fields})) != request_digest(parse(goal="x"))


def test_the_digest_is_pinned_so_that_a_retry_across_a_deploy_finds_its_run() -> None:
    request = parse(goal="x", metadata={"k": "é"}, allowed_toolsets=["b", "a"])
    assert request.to_json() == '{"allowed_toolsets":["b","a"],"goal":"x","metadata":{"k":"é"}}'
    assert request_digest(request) == "ee0219fcada804ee4886f7e4ea026716583380ded76903d15ac00b1738735aef"


def test_canonical_json_sorts_and_packs_and_refuses_what_is_no_json() -> None:
    assert canonical_json({"b": [1, 2.5], "a": "é"}) == '{"a":"é","b":[1,2.5]}'
    with pytest.raises(ValueError, match="JSON"):
        canonical_json(math.nan)


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=20)
    | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(sorted(SubagentLaunchRequest.model_fields)), ANYTHING))
def test_arbitrary_fields_are_accepted_whole_or_refused_with_the_one_error(fields: dict[str, object]) -> None:
    answer: SubagentLaunchRequest | SubagentLifecycleError
    try:
        answer = parse(fields)
    except SubagentLifecycleError as refused:
        answer = refused
    if isinstance(answer, SubagentLaunchRequest):
        assert parse(json.loads(answer.to_json().encode())) == answer
    else:
        assert all((answer.field, answer.limit, answer.mend))
