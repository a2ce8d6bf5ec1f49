"""The scripted server as a process of its own."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from openai import OpenAI

SCRIPT = {"scripts": [{"agent": "a", "turns": [{"text": "hello", "faults": [{"fault": "overloaded"}]}]}]}
ASKED: Any = [{"role": "system", "content": "You are a."}, {"role": "user", "content": "hi"}]


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", "-m", "retinue.testing.server", *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def process(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    path = tmp_path / "script.json"
    path.write_text(json.dumps(SCRIPT))
    with start(str(path), "--port", "0", "--with-parent") as started:
        try:
            yield started
        finally:
            started.kill()


def address(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def test_it_prints_its_address_serves_its_file_and_shows_what_it_saw(
    process: subprocess.Popen[str],
) -> None:
    shown = address(process)
    assert shown["pid"] == process.pid
    with OpenAI(base_url=shown["base_url"], api_key="hidden-key", max_retries=1) as client:
        reply = client.chat.completions.create(model="m", messages=ASKED)
    assert reply.choices[0].message.content == "hello"
    with httpx2.Client(base_url=shown["url"]) as http:
        counts = http.get("/_counts").json()
        assert (counts["total"], counts["agents"], counts["peak"]) == (2, {"a": 2}, 1)
        assert counts["statuses"] == {"529": 1, "200": 1}
        answer = http.get("/_requests", params={"agent": "a", "bodies": "1"})
        assert [request["fault"] for request in answer.json()["requests"]] == ["overloaded", None]
        assert answer.json()["requests"][0]["body"]["messages"] == ASKED
        assert "hidden-key" not in answer.text
        assert http.get("/_requests", params={"agent": "b"}).json()["count"] == 0
        http.delete("/_requests")
        assert http.get("/_counts").json()["total"] == 0


def test_scripts_are_added_and_gates_released_over_http(process: subprocess.Popen[str]) -> None:
    shown = address(process)
    held = {"agent": "b", "turns": [{"text": "open", "gate": "door"}]}
    with (
        httpx2.Client(base_url=shown["url"]) as http,
        OpenAI(base_url=shown["base_url"], api_key="k") as client,
    ):
        assert http.post("/_script", json={"scripts": [held]}).status_code == 200
        refused = http.post("/_script", json={"scripts": [{"agent": "b", "turn": []}]})
        assert refused.status_code == 400
        assert "scripts.0.turn" in refused.json()["error"]
        assert http.post("/_release", json={"gate": "door"}).status_code == 200
        asked: Any = [{"role": "system", "content": "You are b."}, {"role": "user", "content": "hi"}]
        reply = client.chat.completions.create(model="m", messages=asked)
    assert reply.choices[0].message.content == "open"


def test_it_ends_on_sigterm(process: subprocess.Popen[str]) -> None:
    address(process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 0


def test_it_ends_with_its_parent(process: subprocess.Popen[str]) -> None:
    address(process)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(timeout=30) == 0


def test_a_file_that_is_no_script_stops_it_and_is_named(tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    path.write_text('{"scrips": []}')
    command = [sys.executable, "-m", "retinue.testing.server", str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 2
    assert str(path) in ended.stderr
    assert "scrips" in ended.stderr
