"""The examples in docs/, run together as a reader would put them together."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs.fenced import PROJECT, blocks

from retinue.agents import Registry, resolve
from retinue.broker.settings import Settings
from retinue.contract import SubagentLifecycleError


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


@pytest.mark.parametrize("example", ["django_app", "fastapi_app"])
def test_an_examples_readme_names_files_that_exist(example: str) -> None:
    folder = PROJECT / "examples" / example
    text = (folder / "README.md").read_text()

    named = [word.strip("`,.;") for word in text.split() if word.strip(",.;").endswith(".py`")]
    assert named
    assert [name for name in named if not (folder / name).is_file()] == []
