"""A model's machine that is lost while it is asked: the call is given up long before its time is over."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from pydantic import SecretStr
from tests.acceptance.faults.network_namespace import FarMachine

from retinue.broker.outbound.target_guard import TargetGuard
from retinue.broker.settings.tools import RemoteToolSettings
from retinue.store.connections.keepalive import keepalive_options
from retinue.testing.processes import ChildProcess
from retinue.worker.models import ModelError, ModelRequest, OpenAiModel, Provider, user_entry

FOUND_S = 30.0
"""By when the calls must have failed, in seconds: here the kernel takes 3, and the calls' own time is 600."""

SILENT = {
    "scripts": [{"agent": "helper", "turns": [{"text": "never", "gate": "never"}], "repeat_last": True}]
}


@pytest.fixture
def far_model(far: FarMachine, tmp_path: Path) -> Iterator[str]:
    """URL of a model that never answers."""
    script = tmp_path / "script.json"
    script.write_text(json.dumps(SILENT))
    command = [*far.command, sys.executable, "-m", "retinue.testing.server", "--host", far.address]
    with ChildProcess([*command, str(script)], log=tmp_path / "model.log") as process:
        yield json.loads(process.wait_for_log(r"^\{.*base_url.*$")[0])["url"]
    far.mend()


def request_to(url: str, *, guarded: bool) -> ModelRequest:
    """A request over pooled connections, or over one to an address that is looked at."""
    provider = Provider(name="far", base_url=f"{url}/v1", api_key=SecretStr("key"), guarded=guarded)
    entry = user_entry(provider.api, "hello")
    return ModelRequest(provider=provider, model="m", system="You are helper.", entries=(entry,))


async def wait_until_asked(url: str, *, times: int) -> None:
    async with httpx2.AsyncClient(trust_env=False) as client, asyncio.timeout(FOUND_S):
        while (await client.get(f"{url}/_counts")).json()["in_flight"] < times:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_a_call_to_a_model_whose_machine_is_lost_is_given_up_and_may_be_repeated(
    far: FarMachine, far_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "retinue.broker.outbound.lasting_http.HTTP_OPTIONS", keepalive_options(idle_s=1, every_s=1, times=2)
    )
    model = OpenAiModel(guard=TargetGuard(RemoteToolSettings(private_hosts=(far.address,))))
    calls = [
        asyncio.create_task(model.complete(request_to(far_model, guarded=guarded)))
        for guarded in (False, True)
    ]
    await wait_until_asked(far_model, times=len(calls))

    far.cut()
    async with asyncio.timeout(FOUND_S):
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
    await model.close()

    assert [(type(outcome), getattr(outcome, "retryable", None)) for outcome in outcomes] == [
        (ModelError, True),
        (ModelError, True),
    ]
