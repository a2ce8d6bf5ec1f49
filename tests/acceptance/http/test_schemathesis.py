"""schemathesis holds the running API against its own OpenAPI document, and finds nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.http.http_rig import HttpRig, http_rig
from tests.acceptance.run_rig import DEADLINE_S

CASES = 15
"""Random cases of each route and kind, besides those that cover its schema."""

# What a JSON schema cannot say, or not in a way that data can be made from: that fields belong together, that
# a name is known, that a text is not blank and has no NUL, that an idempotency key was not used for another
# request, that a cursor was given.
OF_FIELDS = ("launch", "launch_many", "continue_run", "steer", "raise_budget", "create_webhook")
OF_KEYS = ("approve", "deny", "answer", "replay")
OF_CURSORS = (
    "list_runs",
    "messages",
    "agents",
    "toolsets",
    "workers",
    "queues",
    "dead_letters",
    "deliveries",
)
# Of schemathesis itself, which gives up where its own data take long to make: machines may be busy.
UNHURRIED = ("--suppress-health-check", "all")
ACCEPTED = ("2xx", "3xx", "401", "403", "404", "409", "429")

CONFIG = """\
generation.deterministic = true
generation.max-examples = {cases}
continue-on-failure = true
request-timeout = {timeout_s}

[headers]
Authorization = "Bearer {key}"

[parameters]
"path.run_id" = "{ended}"
"query.session" = "customer-42"
"query.timeout_seconds" = 0

[checks.positive_data_acceptance]
expected-statuses = {accepted}

[[operations]]
include-operation-id = "purge"
parameters = {{ "path.run_id" = "{spare}" }}

[[operations]]
include-operation-id = "drain"
parameters = {{ "path.process" = "nobody" }}

[[operations]]
include-operation-id = {may_be_refused}
checks.positive_data_acceptance.expected-statuses = {accepted_or_422}
"""


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpRig]:
    """An API process that is asked much, and a worker whose model has one answer to everything."""
    directory = tmp_path_factory.mktemp("schemathesis")
    with http_rig(directory, agents="http_doc_agents", store_timeout_seconds=30.0) as web:
        web.api(store_timeout_seconds=30.0, http__requests_per_minute=0)
        web.rig.worker(concurrency=8)
        web.rig.model.script("support").reply(lambda _request: "It is done.")
        yield web


def ended_run(web: HttpRig) -> str:
    """The id of a run that has ended."""
    body = {"session_id": "customer-42", "agent": "support", "goal": "sum up", "budget": {"tokens": 9_999}}
    with web.http() as api:
        run_id = api.post("/v1/runs", json=body).raise_for_status().json()["run_id"]
        waited = api.get(f"/v1/runs/{run_id}/wait", params={"timeout_seconds": DEADLINE_S}).json()
    assert waited["completed"], waited
    return run_id


def write_config(web: HttpRig, path: Path) -> None:
    """What schemathesis has to know: a key, a run, and which refusals its own rules cannot foresee."""
    path.write_text(
        CONFIG.format(
            cases=CASES,
            timeout_s=DEADLINE_S,
            key=web.key(),
            ended=ended_run(web),
            spare=ended_run(web),
            accepted=json.dumps(ACCEPTED),
            accepted_or_422=json.dumps([*ACCEPTED, "422"]),
            may_be_refused=json.dumps([*OF_FIELDS, *OF_KEYS, *OF_CURSORS]),
        )
    )


@pytest.mark.timeout(900)
def test_schemathesis_finds_nothing(web: HttpRig, tmp_path: Path) -> None:
    config = tmp_path / "schemathesis.toml"
    write_config(web, config)
    program = Path(sys.executable).with_name("schemathesis")
    command = [program, "--config-file", config, "run", f"{web.apis[0].url}/v1/openapi.json"]

    done = subprocess.run(
        [
            *command,
            "--checks",
            "all",
            "--phases",
            "examples,coverage,fuzzing",
            "--warnings",
            "off",
            *UNHURRIED,
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=880,
    )

    assert done.returncode == 0, done.stdout + done.stderr
