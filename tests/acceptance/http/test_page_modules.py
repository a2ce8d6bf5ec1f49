"""The page's modules that compute, by themselves in the browser that will run them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.acceptance.http.page_rig import Page

STREAM = (
    ': hello\n\nid: 1\nevent: run.created\ndata: {"a":\ndata: 1}\n\n'
    "id: 2\r\ndata: two: 2\r\n\r\n:\n\nevent: end\ndata\n\n"
)
EVENTS = [
    {"id": "1", "type": "run.created", "data": '{"a":\n1}'},
    {"id": "2", "type": "message", "data": "two: 2"},
    {"id": "", "type": "end", "data": ""},
]


@pytest.fixture(scope="module", autouse=True)
def _opened(page: Page) -> None:
    page.open()
    page.one("#key")


def test_events_are_read_wherever_the_stream_is_cut(page: Page) -> None:
    script = """
        const [text] = args;
        return Array.from({ length: text.length + 1 }, (_, at) => {
          const parser = new m.Parser();
          return [...parser.feed(text.slice(0, at)), ...parser.feed(text.slice(at))];
        });
    """
    for events in page.import_from("sse.js", script, STREAM):
        assert events == EVENTS


def run(name: str, parent: str | None = None, **members: Any) -> dict[str, Any]:
    number = ord(name)
    return {
        "run_id": name,
        "parent_id": parent,
        "agent": "agent",
        "state": "RUNNING",
        "session_id": "s",
        "created_at": number,
        **members,
    }


TREE = [run("a"), run("b", "a"), run("c", "b"), run("d", "a"), run("e"), run("f", "gone")]


def rows(page: Page, runs: list[dict[str, Any]], folded: str = "", **given: str) -> list[list[Any]]:
    """The rows of a tree as [id, level, position, siblings]."""
    script = """
        const [runs, folded, given] = args;
        return m.rowsOf(runs, new Set(folded), { ...m.NO_FILTER, ...given })
          .map((row) => [row.run.run_id, row.level, row.position, row.siblings]);
    """
    return page.import_from("tree-model.js", script, runs, folded, given)


def test_the_newest_root_stands_first_and_children_in_the_order_of_their_birth(page: Page) -> None:
    assert rows(page, TREE) == [
        ["f", 1, 1, 3],
        ["e", 1, 2, 3],
        ["a", 1, 3, 3],
        ["b", 2, 1, 2],
        ["c", 3, 1, 1],
        ["d", 2, 2, 2],
    ]


def test_what_is_folded_has_no_rows_below_it(page: Page) -> None:
    assert [name for name, *_ in rows(page, TREE, folded="b")] == ["f", "e", "a", "b", "d"]


@pytest.mark.parametrize(
    "given",
    [
        {"text": "CODER"},
        {"agent": "coder"},
        {"state": "STARTING"},
        {"state": "needs-human"},
        {"session": "tomer-4"},
        {"text": "cod", "session": "customer"},
    ],
)
def test_a_filter_leaves_what_it_finds_and_the_way_there(page: Page, given: dict[str, str]) -> None:
    found = {"agent": "coder", "state": "STARTING", "pending": 1, "session_id": "customer-42"}
    runs = [*TREE[:2], run("c", "b", **found), *TREE[3:]]
    assert rows(page, runs, **given) == [["a", 1, 1, 1], ["b", 2, 1, 1], ["c", 3, 1, 1]]


def test_a_deep_tree_has_all_its_rows(page: Page) -> None:
    runs = [run("a"), *(run("a", parent=str(n)) | {"run_id": str(n + 1)} for n in range(5_000))]
    runs[0]["run_id"] = "0"
    assert rows(page, runs)[-1] == ["5000", 5_001, 1, 1]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"n": 12345678901234567890}', '{\n  "n": 12345678901234567890\n}'),
        ('{"n": 1.10, "m": 1e400}', '{\n  "n": 1.10,\n  "m": 1e400\n}'),
        ('{"path": "safe\\u202etxt.exe"}', '{\n  "path": "safe\\u202etxt.exe"\n}'),
        ('{"a\\u200bb": "c\\u00a0d"}', '{\n  "a\\u200bb": "c\u00a0d"\n}'),
    ],
)
def test_arguments_are_shown_as_they_will_be_passed(page: Page, text: str, shown: str) -> None:
    assert page.import_from("exact.js", "return m.exactText(args[0])", text) == shown


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        ("m.span(59.9)", "59s"),
        ("m.span(185)", "3m 05s"),
        ("m.span(7_800)", "2h 10m"),
        ("m.span(90_000)", "1d 1h"),
        ("m.duration(41)", "41 ms"),
        ("m.duration(1_250)", "1.3 s"),
        ("m.usd(0.000431)", "$0.00043"),
        ("m.usd(12)", "$12.00"),
        ("m.usd(null)", "–"),
        ("m.short(12_345)", "12.3K"),
    ],
)
def test_figures_are_short(page: Page, call: str, shown: str) -> None:
    assert page.import_from("format.js", f"return {call}") == shown


@pytest.mark.parametrize(
    ("known", "newest", "joined"),
    [
        ("", "ab", "ab"),
        ("ab", "ab", "ab"),
        ("ab", "abc", "abc"),
        ("abcd", "cde", "abcde"),
        ("abab", "abab", "abab"),
        ("ab", "xy", None),
    ],
)
def test_the_newest_messages_join_on_to_those_before(
    page: Page, known: str, newest: str, joined: str | None
) -> None:
    script = "return m.join([...args[0]], [...args[1]])?.join('') ?? null"
    assert page.import_from("conversation-view.js", script, known, newest) == joined
