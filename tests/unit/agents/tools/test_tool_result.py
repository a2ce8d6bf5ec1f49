from __future__ import annotations

import datetime
import json
import uuid
from dataclasses import dataclass, field
from decimal import Decimal

import pytest
from pydantic import BaseModel

from retinue.agents import ToolResultError
from retinue.agents.tools.tool_result import result_text


class Hit(BaseModel):
    page: int


@dataclass
class Found:
    hits: list[Hit]
    at: datetime.date = field(default_factory=lambda: datetime.date(2026, 1, 2))


def test_text_stays_text() -> None:
    assert result_text('a "b"') == 'a "b"'


def test_dataclasses_and_models_become_json() -> None:
    assert json.loads(result_text(Found([Hit(page=3)]))) == {"hits": [{"page": 3}], "at": "2026-01-02"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        ({"a": (1, 2)}, '{"a":[1,2]}'),
        (float("nan"), '"NaN"'),
        (b"\xff", '"_w=="'),
        (Decimal("1.50"), '"1.50"'),
        (uuid.UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
    ],
)
def test_other_values_become_valid_json(value: object, text: str) -> None:
    assert result_text(value) == text
    json.loads(text)


def test_a_lone_surrogate_is_replaced() -> None:
    assert result_text("a\ud800b") == "a?b"


def test_a_value_without_json_form_names_its_type_and_not_the_value() -> None:
    class Secret:
        def __repr__(self) -> str:
            return "hunter2"

    with pytest.raises(ToolResultError, match="Secret") as caught:
        result_text([Secret()])
    assert "hunter2" not in str(caught.value)


def test_a_circular_value_is_refused() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(ToolResultError):
        result_text(value)


def test_a_long_text_is_cut_at_a_character_with_a_mark() -> None:
    for limit in (500, 501):
        text = result_text("ä" * 1_000, max_bytes=limit)
        assert len(text.encode()) <= limit
        assert text.endswith(f"[cut: the result was longer than {limit} bytes]")
        assert "\ufffd" not in text
    assert result_text("ä" * 250, max_bytes=500) == "ä" * 250
