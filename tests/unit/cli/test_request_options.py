from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from retinue.cli.request_options import request_fields, with_request_options
from retinue.contract import Budget, OnSpent, Priority, Role, SubagentLaunchRequest

# Said by other options (--session), or too much for a command line.
_WITHOUT_OPTION = {"agent_spec", "parent_session_id", "on_done", "webhook", "limits", "on_parent_end"}


@pytest.fixture
def launched() -> list[dict[str, object]]:
    return []


@pytest.fixture
def command(launched: list[dict[str, object]]) -> typer.Typer:
    app = typer.Typer(add_completion=False)

    @app.command()
    @with_request_options
    def launch(request: dict[str, object], session: str = "cli") -> None:
        launched.append({**request, "session": session})

    return app


def invoke(command: typer.Typer, *arguments: str, stdin: str | None = None) -> int:
    return CliRunner().invoke(command, list(arguments), input=stdin).exit_code


def test_a_plain_launch_asks_for_the_defaults(
    command: typer.Typer, launched: list[dict[str, object]]
) -> None:
    assert invoke(command, "support", "Help.", "--session", "s") == 0

    (request,) = launched
    assert request.pop("session") == "s"
    assert SubagentLaunchRequest.parse(request) == SubagentLaunchRequest(agent="support", goal="Help.")


def test_every_option_reaches_its_field(
    command: typer.Typer, launched: list[dict[str, object]], tmp_path: Path
) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    options = "--context c --input n=3 --correlation-id t-1 --on-duplicate return --timeout 9.5 "
    options += "--max-iterations 7 --toolset files --toolset web --block-tool rm --role orchestrator "
    options += "--budget usd=2.50 --budget on_spent=stop "
    options += "--model m --provider p --working-directory a/b --priority high --metadata k=v "
    options += f"--output-schema {tmp_path}/schema.json"
    assert invoke(command, "support", "Help.", *options.split()) == 0

    (request,) = launched
    request.pop("session")
    parsed = SubagentLaunchRequest.parse(request)
    assert parsed.inputs == {"n": 3}
    assert parsed.output_schema == schema
    assert parsed.timeout_seconds == 9.5
    assert parsed.allowed_toolsets == ("files", "web")
    assert parsed.blocked_tools == ("rm",)
    assert parsed.metadata == {"k": "v"}
    assert parsed.budget == Budget(usd=2.5, on_spent=OnSpent.STOP)
    assert (parsed.role, parsed.priority) == (Role.ORCHESTRATOR, Priority.HIGH)
    assert set(request) == set(SubagentLaunchRequest.model_fields) - _WITHOUT_OPTION


@pytest.mark.parametrize("name", ["spec.yaml", "parts/spec.yml", "/a/spec.json"])
def test_a_file_in_the_place_of_an_agent_is_handed_over_as_a_path(
    command: typer.Typer, launched: list[dict[str, object]], name: str
) -> None:
    assert invoke(command, name, "Help.") == 0

    assert launched[0]["agent"] == Path(name)


def test_a_dash_is_the_default_agent_and_reads_the_goal(
    command: typer.Typer, launched: list[dict[str, object]]
) -> None:
    assert invoke(command, "-", "-", stdin="From a pipe.") == 0

    assert launched[0]["goal"] == "From a pipe."
    assert "agent" not in launched[0]


def test_no_tools_is_none_and_not_all() -> None:
    assert request_fields("a", "g", no_tools=True)["allowed_toolsets"] == ()
    assert "allowed_toolsets" not in request_fields("a", "g")


def test_no_tools_and_a_toolset_exclude_each_other(
    command: typer.Typer, launched: list[dict[str, object]]
) -> None:
    assert invoke(command, "a", "g", "--no-tools", "--toolset", "files") == 2
    assert launched == []
