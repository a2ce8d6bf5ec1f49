"""The commands against a real store, a real worker and a scripted model."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from retinue.cli.exits import ExitCode
from retinue.testing import ScriptedServer, bad_request
from retinue.testing.processes import ChildProcess
from retinue.testing.servers import PrivateServer
from retinue.testing.workers import RETINUE_COMMAND, WorkerProcess, worker_environment

AGENTS = '''
from retinue.agents import Agent, SubAgentSpec, tool

@tool(toolset="sums", read_only=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b

clerk = SubAgentSpec(name="clerk", description="Adds.", tools=[add])
desk = Agent(name="desk", instructions="You are desk.", model="m", sub_agents=[clerk])
idler = Agent(name="idler", instructions="You are idler.", model="m")
broken = Agent(name="broken", instructions="You are broken.", model="m")
rude = Agent(name="rude", instructions="You are rude.", model="m")
talker = Agent(name="talker", instructions="You are talker.", model="m")
'''
RUDE = "\x1b[2Jgone\r\u202e"


class Cli:
    """Runs `retinue` as another shell would."""

    def __init__(self, directory: Path, store_url: str) -> None:
        self.directory = directory
        self.environment = worker_environment({"store_url": store_url})

    def __call__(
        self, *arguments: str, stdin: str = "", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "retinue.cli", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            cwd=self.directory,
            env=self.environment | environment,
            check=False,
        )

    def json(self, *arguments: str, code: ExitCode = ExitCode.OK, **environment: str) -> Any:
        done = self(*arguments, "--json", **environment)
        assert done.returncode == code, done.stderr or done.stdout
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def server() -> Iterator[PrivateServer]:
    with PrivateServer(appendonly=True, config={"appendfsync": "everysec"}) as server:
        yield server


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedServer]:
    with ScriptedServer() as model:
        model.script("desk").call("run_agent", {"name": "clerk", "task": "2 + 3"}).then("It is ${results}.")
        model.script("clerk").call("add", {"a": 2, "b": 3}).then("${results}")
        model.script("idler").hold("never").say("Late.")
        model.script("broken").fault_any_turn(bad_request("no"), times=None).say("never")
        model.script("rude").say(RUDE)
        model.script("talker").say("Yes.").repeat_last()
        yield model


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("cli")
    (made / "cli_agents.py").write_text(AGENTS)
    return made


@pytest.fixture(scope="module")
def worker(server: PrivateServer, model: ScriptedServer, directory: Path) -> Iterator[WorkerProcess]:
    # A positional module and an option of Celery's behind it; the module is found in the working directory.
    with WorkerProcess(
        server.url,
        directory=directory,
        command=RETINUE_COMMAND,
        arguments=["cli_agents", "--without-gossip"],
        model_url=model.base_url,
    ) as worker:
        worker.wait_until_ready(60)
        yield worker


@pytest.fixture
def cli(directory: Path, server: PrivateServer, worker: WorkerProcess) -> Cli:
    assert worker.running
    return Cli(directory, server.url)


def test_run_shows_the_tree_and_prints_the_result(cli: Cli) -> None:
    done = cli("run", "desk", "How much is 2 + 3?")

    assert (done.returncode, done.stdout) == (ExitCode.OK, "It is 5.\n"), done.stderr
    shown = done.stderr.splitlines()
    assert any("clerk tool.finished" in line for line in shown)
    assert shown[-1].endswith("desk run.finished state=SUCCEEDED")


def test_run_reads_its_goal_from_a_pipe_and_can_be_quiet(cli: Cli) -> None:
    done = cli("run", "desk", "-", "--quiet", stdin="How much?")

    assert (done.returncode, done.stdout, done.stderr) == (ExitCode.OK, "It is 5.\n", "")


def test_run_gives_one_json_document_with_what_was_asked_for(cli: Cli) -> None:
    result = cli.json("run", "desk", "How much?", "--metadata", "ticket=7", "--session", "json")

    assert (result["terminal_state"], result["summary"]) == ("SUCCEEDED", "It is 5.")
    assert result["metadata"] == {"ticket": 7}
    assert result["handle"]["parent_session_id"] == "json"


def test_a_failed_run_is_told_by_the_exit_code(cli: Cli) -> None:
    done = cli("run", "broken", "Go.", "--quiet")

    assert (done.returncode, done.stdout) == (ExitCode.FAILED, "")
    assert done.stderr.startswith("FAILED MODEL_REJECTED")
    assert cli.json("run", "broken", "Go.", code=ExitCode.FAILED)["error_classification"] == "MODEL_REJECTED"


def test_a_run_that_its_deadline_cuts_is_interrupted(cli: Cli) -> None:
    done = cli("run", "idler", "Go.", "--timeout", "0.5", "--quiet")

    assert done.returncode == ExitCode.INTERRUPTED
    assert "INTERRUPTED DEADLINE_EXCEEDED" in done.stderr


def test_a_launched_run_is_found_by_file_pipe_and_bare_id(cli: Cli) -> None:
    launched = cli("launch", "desk", "How much?")
    (cli.directory / "handle.json").write_text(launched.stdout)
    run_id = json.loads(launched.stdout)["subagent_id"]

    assert cli("wait", "@handle.json").stdout == "SUCCEEDED\n"
    assert cli("result", "-", stdin=launched.stdout).stdout == "It is 5.\n"
    assert "state: SUCCEEDED\n" in cli("status", run_id).stdout
    status = cli.json("status", run_id)
    assert status["handle"] == json.loads(launched.stdout)
    assert cli("result", json.dumps(status)).stdout == "It is 5.\n"


def test_events_are_lines_or_a_document_or_a_stream(cli: Cli) -> None:
    handle = cli("launch", "desk", "How much?").stdout

    followed = [
        json.loads(line)
        for line in cli("events", "-", "--follow", "--json", stdin=handle).stdout.splitlines()
    ]
    read = cli.json("events", handle, "--after", "2")["events"]
    lines = cli("events", handle).stdout.splitlines()
    assert followed[-1]["type"] == "run.finished"
    assert [event["sequence"] for event in followed] == list(range(1, len(followed) + 1))
    assert read == followed[2:]
    assert len(lines) == len(followed)


def test_a_run_under_way_is_seen_steered_and_cancelled(cli: Cli, model: ScriptedServer) -> None:
    before = model.count("idler")
    handle = cli("launch", "idler", "Wait.", "--session", "under-way").stdout
    run_id = json.loads(handle)["subagent_id"]
    model.wait_for(lambda seen: seen.count("idler") > before, 20)

    assert cli("wait", handle, "--timeout", "0").returncode == ExitCode.NOT_READY
    assert cli("result", handle).returncode == ExitCode.NOT_READY
    shown = cli.json("ps")
    assert [run["run_id"] for run in shown["runs"] if run["phase"] == "model_call"] == [run_id]
    (process,) = shown["workers"]
    assert process["runs"] >= 1
    assert "desk" in process["agents"]
    assert {"name": "retinue", "queued": 0} in shown["queues"]
    assert run_id in cli("ps").stdout
    assert cli.json("steer", handle, "Hurry.")["state"] == "queued"
    assert cli.json("cancel", handle, "--reason", "enough") == {
        "accepted": True,
        "state": "CANCEL_REQUESTED",
        "unknown_handle": False,
        "already_terminal": False,
        "unsupported": False,
    }
    assert cli.json("wait", handle, "--timeout", "20", code=ExitCode.CANCELLED)["state"] == "CANCELLED"
    assert cli("result", handle).returncode == ExitCode.CANCELLED
    assert cli("steer", handle, "Hurry.").returncode == ExitCode.PROBLEM
    assert cli("cancel", handle).returncode == ExitCode.PROBLEM
    assert [run["state"] for run in cli.json("ps", "--session", "under-way")["runs"]] == ["CANCELLED"]
    assert run_id not in cli("ps").stdout


def test_a_wait_that_is_over_first_ends_the_watching_and_not_the_run(cli: Cli) -> None:
    result = cli.json("run", "idler", "Wait.", "--wait", "0.2", code=ExitCode.NOT_READY)

    assert result["ready"] is False
    assert cli("cancel", result["handle"]["subagent_id"]).returncode == ExitCode.OK


def test_ctrl_c_ends_the_watching_and_not_the_run(cli: Cli, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "retinue.cli", "run", "idler", "Wait."]
    with ChildProcess(command, log=tmp_path / "run.log", env=cli.environment) as process:
        process.wait_for_log("idler model.started")
        process.signal(signal.SIGINT)

        assert process.wait() == ExitCode.NOT_READY
        run_id = process.wait_for_log(r"the run goes on: retinue wait (sa-\S+),")[1]
    assert cli.json("status", run_id)["state"] == "RUNNING"
    assert cli("cancel", run_id).returncode == ExitCode.OK


def test_a_handle_that_was_tampered_with_is_unknown_to_every_command(cli: Cli) -> None:
    handle = cli.json("launch", "desk", "How much?")
    forged = json.dumps(handle | {"role": "orchestrator"})

    for command in (["status"], ["wait"], ["result"], ["events"], ["cancel"], ["steer"]):
        more = ["Hi."] if command == ["steer"] else []
        assert cli(*command, forged, *more).returncode == ExitCode.UNKNOWN_HANDLE, command
    assert cli.json("status", "sa-p00-" + "a" * 26, code=ExitCode.UNKNOWN_HANDLE)["state"] == "UNKNOWN"


def test_another_tenants_runs_are_unknown(cli: Cli) -> None:
    run_id = cli.json("launch", "desk", "How much?")["subagent_id"]

    assert cli("status", run_id, "--tenant", "other").returncode == ExitCode.UNKNOWN_HANDLE


def test_a_refused_launch_names_the_field_and_the_mend(cli: Cli) -> None:
    error = cli.json("launch", "dsk", "Go.", code=ExitCode.PROBLEM)["error"]
    duplicate = ("launch", "desk", "Go.", "--correlation-id", "once")
    first = cli.json(*duplicate)

    assert (error["code"], error["field"]) == ("UNKNOWN_AGENT", "agent")
    assert "'desk'" in error["message"]
    assert cli.json(*duplicate, code=ExitCode.PROBLEM)["error"]["code"] == "DUPLICATE_CORRELATION"
    assert cli.json(*duplicate, "--on-duplicate", "return") == first


def test_what_a_model_wrote_cannot_act_on_the_terminal(cli: Cli) -> None:
    done = cli("run", "rude", "Say it.", "--quiet")

    assert done.stdout == "\\x1b[2Jgone\\x0d\\u202e\n"
    assert cli.json("run", "rude", "Say it.")["summary"] == RUDE


def test_the_doctor_finds_nothing_wrong_beside_a_live_worker(cli: Cli) -> None:
    report = cli.json("doctor", RETINUE_AGENTS="cli_agents", OPENAI_API_KEY="k")

    checks = {finding["check"] for finding in report["findings"]}
    assert report["healthy"]
    assert {
        "settings",
        "worker extra",
        "providers",
        "agents",
        "store",
        "durability",
        "clock",
        "handle keys",
        "API keys",
        "workers",
    } == checks
    # This process has no endpoint of its own, but the same declarations.
    assert [one for one in report["findings"] if one["outcome"] != "ok"] == []


def test_the_doctor_names_each_problem_with_its_mend(cli: Cli) -> None:
    (cli.directory / "other_agents.py").write_text(
        "from retinue.agents import Agent\n"
        "print('noise')\n"
        "desk = Agent(name='desk', instructions='Changed.', model='m')\n"
        "newcomer = Agent(name='newcomer', instructions='New.', model='m')\n"
    )
    report = cli.json("doctor", RETINUE_AGENTS="other_agents", RETINUE_MAX_DEPHT="3")

    said = [finding["message"] for finding in report["findings"] if finding["outcome"] == "warning"]
    assert any("RETINUE_MAX_DEPHT is no setting" in message for message in said)
    assert any("'desk' is declared differently" in message for message in said)
    assert any("'newcomer' is declared here, and no live worker runs it" in message for message in said)
    assert all(one["mend"] for one in report["findings"] if one["outcome"] != "ok")
    missing = cli.json("doctor", code=ExitCode.PROBLEM, RETINUE_AGENTS="nowhere")
    assert "module 'nowhere' cannot be found" in str(missing)
    absent = cli.json("doctor", code=ExitCode.PROBLEM, RETINUE_STORE_URL="redis://127.0.0.1:1/0")
    assert "no server answers" in str(absent)


def test_the_doctor_warns_of_a_module_that_declares_nothing(cli: Cli) -> None:
    (cli.directory / "bare_agents.py").write_text("def make(): ...\n")
    report = cli.json("doctor", RETINUE_AGENTS="cli_agents,bare_agents")

    (found,) = [one for one in report["findings"] if (one["check"], one["outcome"]) == ("agents", "warning")]
    assert found["message"] == "bare_agents declares no agent"
    assert "at the top level of a module" in found["mend"]


def test_the_doctor_misses_workers_where_there_are_none(directory: Path) -> None:
    with PrivateServer(appendonly=True) as server:
        report = Cli(directory, server.url).json("doctor", code=ExitCode.PROBLEM)

    (error,) = [finding for finding in report["findings"] if finding["outcome"] == "error"]
    assert (error["check"], error["message"]) == ("workers", "no worker is live")
    assert "retinue worker" in error["mend"]


@pytest.mark.parametrize("wait", ["nan", "-1"])
def test_a_wait_that_makes_no_sense_launches_nothing(cli: Cli, wait: str) -> None:
    error = cli.json("run", "idler", "Go.", f"--wait={wait}", "--session", "senseless", code=ExitCode.PROBLEM)

    assert error["error"]["field"] == "--wait"
    assert cli.json("ps", "--session", "senseless")["runs"] == []


def test_a_run_that_no_worker_can_start_says_so_once(directory: Path, model: ScriptedServer) -> None:
    with PrivateServer(appendonly=True) as server:
        alone = Cli(directory, server.url)
        # A name, and so a log, of its own: the other worker's says "ready" already.
        options: dict[str, Any] = {"directory": directory, "command": RETINUE_COMMAND, "name": "alone"}
        with WorkerProcess(
            server.url, arguments=["cli_agents"], model_url=model.base_url, **options
        ) as worker:
            worker.wait_until_ready(60)
            # What it can run is remembered after its end.
            assert alone.json("run", "idler", "Go.", "--timeout", "0.1", code=ExitCode.INTERRUPTED)
            worker.terminate()
            worker.wait(30)
        ran = alone("run", "desk", "Go.", "--wait", "3")
        quiet = alone("run", "desk", "Go.", "--wait", "2.5", "--quiet")
        run_id = alone.json("launch", "desk", "Go.")["subagent_id"]
        waited = alone("wait", run_id, "--timeout", "3")

    hint = "no live worker runs 'desk' (queue retinue); start one: retinue worker your.module"
    assert ran.returncode == waited.returncode == ExitCode.NOT_READY
    assert (ran.stderr.count(hint), waited.stderr.count(hint)) == (1, 1), ran.stderr + waited.stderr
    assert hint not in quiet.stderr


def test_a_handle_that_leads_nowhere_says_what_that_means(cli: Cli) -> None:
    for command in (["status"], ["wait"], ["result"], ["events"], ["cancel"], ["steer", "Hi."]):
        done = cli(command[0], "sa-p00-" + "a" * 26, *command[1:])
        assert done.returncode == ExitCode.UNKNOWN_HANDLE, command
        assert "expired, forged, or of another tenant or session" in done.stderr, command


def test_the_path_of_a_file_is_told_to_be_written_with_its_sign(cli: Cli) -> None:
    (cli.directory / "saved.json").write_text("{}")
    done = cli("status", "saved.json")

    assert done.returncode == 2
    assert "@saved.json" in done.stderr


def test_continue_says_the_next_thing_in_a_conversation(cli: Cli) -> None:
    first = cli.json("run", "talker", "Hello.", "--session", "talk")["handle"]

    handle = cli.json("continue", json.dumps(first), "And again.")

    assert (handle["parent_session_id"], handle["depth"]) == ("talk", 0)
    ended = cli.json("wait", handle["subagent_id"], "--timeout", "30")
    assert ended["state"] == "SUCCEEDED"
    assert cli.json("status", handle["subagent_id"])["continues"] == first["subagent_id"]
    by_id = cli("continue", handle["subagent_id"], "-", stdin="Once more.")
    assert json.loads(by_id.stdout)["subagent_id"] not in (first["subagent_id"], handle["subagent_id"])
    unknown = cli.json("continue", "{}", "Hello?", code=ExitCode.UNKNOWN_HANDLE)
    assert unknown["error"]["code"] == "UNKNOWN_HANDLE"
