"""The examples in docs/, run together as a reader would put them together."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.docs.fenced import PROJECT, blocks

from retinue.agents import HookPoint, Registry, resolve
from retinue.agents.builtin_tools.background import BACKGROUND_TOOLS
from retinue.broker.settings import Settings
from retinue.client.facade.budgeting import checked_caps
from retinue.client.launching.requests import launch_request
from retinue.contract import (
    Budget,
    BudgetCap,
    BudgetStatus,
    OnSpent,
    SubagentLaunchRequest,
    SubagentLifecycleError,
    Usage,
    document_name,
)
from retinue.store.operations.provider_places import ProviderLimits
from retinue.worker.models import ModelUsage, Provider
from retinue.worker.models.prices import Prices


def test_the_agent_spec_page_declares_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = PROJECT / "docs" / "agentspec.md"
    (document,), (agents, launch), (override,) = (blocks(page, kind) for kind in ("yaml", "python", "toml"))
    monkeypatch.chdir(tmp_path)
    Path("refunds.yaml").write_text(document)
    Path("retinue.toml").write_text(override)
    monkeypatch.setenv("LLM_KEY", "secret")
    declared: dict[str, object] = {}
    exec(agents, declared)
    launched: dict[str, object] = {}

    class Recorder:
        def launch(self, **request: object) -> None:
            launched.update(request)

    exec(launch, {"lifecycle": Recorder()})
    registry = Registry.from_objects(*declared.values())
    settings = Settings.read(store_url="redis://localhost:1/0")
    spec = resolve(registry, settings, str(launched["agent"]), inputs=launched["inputs"])  # pyright: ignore[reportArgumentType]

    assert spec.instructions.endswith("You serve c-42. Have refunds checked by your worker, then answer.")
    assert [item.name for item in spec.roster] == ["checker"]
    assert [item.name for item in spec.built_in_tools] == ["send_message"]
    # The page's override: another model, with the key of its variable.
    assert spec.model == "llama-5"
    key = settings.llm_configs["maverick"].key()
    assert key is not None
    assert key.get_secret_value() == "secret"
    with pytest.raises(SubagentLifecycleError, match="customer_id"):
        resolve(registry, settings, "refunds")
    checker = registry.agent("checker")
    assert [binding.api_name for binding in checker.tools] == ["Check_refund_eligibility"]


def test_the_page_on_outputs_declares_and_reads_what_it_says() -> None:
    declare, read = blocks(PROJECT / "docs" / "outputs.md", "python")
    names: dict[str, object] = {}
    exec(declare, names)
    judge = Registry.from_objects(names["judge"]).agent("judge")
    assert judge.output_schema
    assert judge.output_schema["required"] == ["refund", "amount"]

    class Answers:
        def run(self, **request: object) -> SimpleNamespace:
            assert request["agent"] == "judge"
            return SimpleNamespace(structured_payload={"refund": True, "amount": 20})

    exec(read, {**names, "lifecycle": Answers()}, names)
    assert names["verdict"] == names["Verdict"](refund=True, amount=20)  # pyright: ignore[reportCallIssue]


def test_the_page_on_approvals_declares_and_decides_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    declare, decide, may_ask = blocks(PROJECT / "docs" / "approvals.md", "python")
    names: dict[str, object] = {}
    exec(declare, names)
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    settings = Settings.read(store_url="redis://localhost:1/0")
    [spec] = resolve(Registry.from_objects(names["clerk"]), settings, "clerk").tools
    assert (spec.name, spec.requires_confirmation) == ("refund", True)
    decided: list[tuple[object, ...]] = []
    requests = [
        SimpleNamespace(kind=kind, request_id=kind + str(amount), arguments={"amount": amount})
        for kind, amount in (("input", 0), ("approval", 100), ("approval", 101))
    ]

    class Recorder:
        def launch(self, **request: object) -> str:
            return "handle"

        def wait(self, handle: object, *, until: str) -> None:
            assert until == "asked"

        def pending(self, handle: object) -> list[SimpleNamespace]:
            return requests

        def __getattr__(self, name: str) -> object:
            return lambda handle, *arguments: decided.append((name, *arguments))

    exec(decide, {"lifecycle": Recorder()})
    assert decided == [
        ("answer", "input0", "Münster"),
        ("approve", "approval100"),
        ("deny", "approval101", "more than 100 euros"),
    ]
    exec(may_ask, names)
    spec = resolve(Registry.from_objects(names["clerk"]), settings, "clerk", model="m")
    assert [tool.name for tool in spec.built_in_tools] == ["ask_user", "ask_parent"]


@pytest.mark.parametrize("example", ["django_app", "fastapi_app"])
def test_an_examples_readme_names_files_that_exist(example: str) -> None:
    folder = PROJECT / "examples" / example
    text = (folder / "README.md").read_text()

    named = [word.strip("`,.;") for word in text.split() if word.strip(",.;").endswith(".py`")]
    assert named
    assert [name for name in named if not (folder / name).is_file()] == []


def test_the_page_on_conversations_says_the_next_thing(capsys: pytest.CaptureFixture[str]) -> None:
    (talk,) = blocks(PROJECT / "docs" / "conversations.md", "python")
    said: list[tuple[object, str]] = []

    class Talk:
        def launch(self, *, agent: str, goal: str) -> str:
            said.append((agent, goal))
            return "first"

        def continue_run(self, handle: object, text: str) -> str:
            said.append((handle, text))
            return "second"

        def wait(self, handle: object) -> None:
            assert handle in ("first", "second")

        def result(self, handle: object) -> SimpleNamespace:
            return SimpleNamespace(summary=f"of {handle}")

    exec(talk, {"lifecycle": Talk()})
    assert said == [("support", "May I return opened headphones?"), ("first", "They were a gift.")]
    assert capsys.readouterr().out == "of second\n"


def test_the_page_on_conversations_tells_the_limits_in_force() -> None:
    page = (PROJECT / "docs" / "conversations.md").read_text()
    for name, limit in Settings.read(store_url="redis://localhost:1/0").groups:
        assert f"| `groups.{name}` | {limit} |" in page


def test_the_page_about_agents_by_value_launches_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (document,) = blocks(PROJECT / "docs" / "agentspec.md", "yaml")
    (launches,) = blocks(PROJECT / "docs" / "by-value.md", "python")
    monkeypatch.chdir(tmp_path)
    Path("refunds.yaml").write_text(document)
    requests: list[SubagentLaunchRequest] = []

    class Recorder:
        def launch(self, **fields: object) -> None:
            requests.append(launch_request(**fields))

    exec(launches, {"lifecycle": Recorder()})

    assert [document_name(request.agent_spec or {}) for request in requests] == ["desk", "refunds", "desk"]
    assert [request.agent for request in requests] == [None, None, "expert"]


def test_the_page_about_the_background_declares_what_it_says() -> None:
    (declaration,) = blocks(PROJECT / "docs" / "background.md", "python")
    declared: dict[str, object] = {}
    exec(declaration, declared)

    settings = Settings.read(store_url="redis://localhost:1/0", providers={"p": {"base_url": "http://h/v1"}})
    spec = resolve(Registry.from_objects(*declared.values()), settings, "lead", model="m")

    assert [tool.name for tool in spec.built_in_tools] == ["run_agent", "list_agents", *BACKGROUND_TOOLS]


def test_the_page_on_costs_reads_and_prices_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = PROJECT / "docs" / "costs.md"
    read, prices = blocks(page, "python")[0], blocks(page, "toml")[0]
    used = Usage(model_calls=1, input_tokens=1_000, cost_usd=0.25)
    ended = SimpleNamespace(usage_metadata={**used.to_dict(), "tree": (used + used).to_dict()})

    class Talk:
        def launch(self, *, agent: str, goal: str) -> str:
            return "handle"

        def wait(self, handle: object) -> None: ...

        def status(self, handle: object) -> SimpleNamespace:
            return SimpleNamespace(usage=used, tree_usage=used + used)

        def result(self, handle: object) -> SimpleNamespace:
            return ended

    exec(read, {"lifecycle": Talk()})
    assert capsys.readouterr().out == "1000 0.25\n0.5\n0.25 0.5\n"

    monkeypatch.chdir(tmp_path)
    Path("retinue.toml").write_text(prices)
    own = Prices(Settings.read())
    proxy = Provider(name="proxy", base_url="http://llm-proxy:4000/v1")
    assert own.cost(proxy, "our-model", ModelUsage(1_000_000, 1_000_000, cached_tokens=1_000_000)) == 675_000
    assert own.estimate(proxy, "gpt-4o", 1_000_000, 0) == 2_500_000


def test_the_page_on_costs_names_every_field_of_usage() -> None:
    page = (PROJECT / "docs" / "costs.md").read_text()
    assert [name for name in Usage().to_dict() if f"`{name}`" not in page] == []


def test_the_page_on_costs_caps_and_raises_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = PROJECT / "docs" / "costs.md"
    example, default = blocks(page, "python")[1], blocks(page, "toml")[1]
    raised: dict[str, object] = {}

    class Paused:
        def launch(self, **request: object) -> str:
            parsed = SubagentLaunchRequest.parse(launch_request(None, **request))
            assert parsed.budget == Budget(usd=1.0, tool_calls=200)
            return "handle"

        def wait(self, handle: object, *, until: str) -> SimpleNamespace:
            assert until == "asked"
            return SimpleNamespace(completed=False)

        def status(self, handle: object) -> SimpleNamespace:
            caps = {"usd": BudgetCap(1.0, 0.95, 0.0, 0.05)}
            return SimpleNamespace(budget=BudgetStatus(caps, OnSpent.PAUSE))

        def raise_budget(self, handle: object, **caps: object) -> None:
            raised.update(checked_caps(caps))

    exec(example, {"lifecycle": Paused()})
    assert capsys.readouterr().out == "0.95 of 1.0 USD used, 0.0 held, 0.05 left\n"
    assert raised == {"usd": 2_000_000}

    monkeypatch.chdir(tmp_path)
    Path("retinue.toml").write_text(default)
    settings = Settings.read().budget
    assert settings.of_roots == Budget(usd=5.0, on_spent=OnSpent.STOP)
    assert settings.estimated_output_tokens == 4_096


def test_the_page_on_providers_configures_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (document,) = blocks(PROJECT / "docs" / "providers.md", "toml")
    monkeypatch.chdir(tmp_path)
    Path("retinue.toml").write_text(document)
    monkeypatch.setenv("HOUSE_LLM_KEY", "secret")
    settings = Settings.read(store_url="redis://localhost:1/0")

    limits = {name: provider.limits for name, provider in settings.providers.items()}
    assert limits == {
        "openai": ProviderLimits(requests_per_minute=3_000, tokens_per_minute=1_000_000),
        "house": ProviderLimits(max_concurrency=16),
    }
    assert (settings.model_max_attempts, settings.model_retry_seconds) == (6, 900)


def test_the_hooks_page_declares_hooks_and_names_a_task_that_may_be_named() -> None:
    hooks, launch, _task = blocks(PROJECT / "docs" / "hooks.md", "python")
    declared: dict[str, object] = {}
    exec(hooks, declared)
    registry = Registry.from_objects(*declared.values())
    assert [hook.point for hook in registry.hooks] == [HookPoint.STOP, HookPoint.TOOL]
    launched: dict[str, Any] = {}
    exec(launch, {"lifecycle": SimpleNamespace(launch=lambda **request: launched.update(request))})  # pyright: ignore[reportUnknownLambdaType]
    asked = launch_request(launched).on_done
    assert asked is not None
    assert (asked.task, asked.queue) == ("shop.reviewed", "shop")
