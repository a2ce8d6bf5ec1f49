"""Settings: sources and their order, what may be written, and what an error says and hides."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from retinue.broker.embedded import keeper
from retinue.broker.embedded.running_store import STATE_FILE
from retinue.broker.server.durability import Durability
from retinue.broker.settings import Settings, load_settings, reset_settings
from retinue.contract.errors import SettingsError
from retinue.store.operations.provider_places import ProviderLimits

SECRET = "s3cret-value"


@pytest.fixture(autouse=True)
def _empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("retinue.broker.settings.process._loaded", None)


def test_the_defaults_are_those_of_the_guarantees() -> None:
    settings = Settings.read()
    assert settings.store_url is None
    assert settings.queue == "retinue"
    assert settings.durability is Durability.EVERYSEC
    assert (settings.lease_seconds, settings.hang_seconds, settings.drain_seconds) == (5, 60, 30)
    assert (settings.cancel_grace_seconds, settings.losses_before_worker_lost) == (5, 3)
    assert (settings.max_iterations, settings.max_depth, settings.max_live_children) == (50, 4, 20)
    assert (settings.max_tree_children, settings.max_steers) == (1_000, 1_000)
    assert (settings.result_ttl_seconds, settings.conversation_ttl_seconds) == (3_600, 7 * 24 * 3_600)


def test_every_setting_says_what_it_is_and_every_time_its_unit() -> None:
    for name, field in Settings.model_fields.items():
        assert field.description, name
        if name.endswith("_seconds"):
            assert "second" in field.description, name
        if field.default is None:
            assert "None =" in field.description or name == "flower_password", name


def test_arguments_win_over_the_environment_and_the_environment_over_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("retinue.toml").write_text("max_depth = 1\nmax_steers = 1\nmax_iterations = 1\n")
    monkeypatch.setenv("RETINUE_MAX_DEPTH", "2")
    monkeypatch.setenv("RETINUE_MAX_STEERS", "2")
    settings = Settings.read(max_depth=3)
    assert (settings.max_depth, settings.max_steers, settings.max_iterations) == (3, 2, 1)


def test_a_mapping_is_merged_from_file_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("retinue.toml").write_text('[providers.local]\nbase_url = "http://localhost:1/v1/"\n')
    monkeypatch.setenv("RETINUE_PROVIDERS__LOCAL__API_KEY", SECRET)
    provider = Settings.read().provider("local")
    assert provider.base_url == "http://localhost:1/v1"
    key = provider.key()
    assert key is not None
    assert key.get_secret_value() == SECRET


def test_the_file_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other.toml").write_text('queue = "elsewhere"\n')
    monkeypatch.setenv("RETINUE_CONFIG", "other.toml")
    assert Settings.read().queue == "elsewhere"


def test_a_named_file_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETINUE_CONFIG", "missing.toml")
    with pytest.raises(SettingsError, match=r"RETINUE_CONFIG: there is no file missing\.toml"):
        Settings.read()


@pytest.mark.parametrize("text", ["shop.agents, shop.more", "  shop.agents,shop.more,"])
def test_names_are_split_at_commas_in_a_variable(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETINUE_AGENTS", text)
    monkeypatch.setenv("RETINUE_DELEGATION__BLOCKED_TOOLS", "rm,dd")
    settings = Settings.read()
    assert settings.agents == ("shop.agents", "shop.more")
    assert settings.delegation.blocked_tools == ("rm", "dd")


def test_names_are_an_array_in_the_file() -> None:
    Path("retinue.toml").write_text('agents = ["shop.agents"]\n[delegation]\nblocked_tools = ["rm"]\n')
    settings = Settings.read()
    assert settings.agents == ("shop.agents",)
    assert settings.delegation.blocked_tools == ("rm",)


def test_routes_keep_their_order_because_the_first_pattern_wins() -> None:
    Path("retinue.toml").write_text('routes = { "triage_*" = "fast", "*" = "slow", researcher = "gpu" }\n')
    assert list(Settings.read().routes.items()) == [
        ("triage_*", "fast"),
        ("*", "slow"),
        ("researcher", "gpu"),
    ]


def test_an_empty_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETINUE_BROKER_URL", "")
    assert Settings.read().broker_url is None


def test_settings_cannot_be_changed() -> None:
    settings = Settings.read()
    with pytest.raises(ValueError, match="frozen"):
        settings.queue = "other"


@pytest.mark.parametrize(
    ("file", "setting", "mend"),
    [
        ("max_dept = 1", "max_dept", "rename it to max_depth"),
        ("[providers.local]\nbase_url = 'http://l'\napi_kee = 'x'", "providers.local.api_kee", "api_key"),
        ("[delegation]\nblocked_tool = []", "delegation.blocked_tool", "blocked_tools in retinue.toml"),
        (
            "[providers.local]\nbase_urll = 'http://l'",
            "providers.local.base_urll",
            "to base_url in retinue.toml",
        ),
        ("[[handle_keys]]\nkidd = 'a'", "handle_keys.0.kidd", "to kid in retinue.toml"),
        ("queue = 'a b'", "queue", "correct it in retinue.toml"),
        ("max_depth = -1", "max_depth", "RETINUE_MAX_DEPTH"),
        (
            "[providers.local]\napi_key = 'x'",
            "providers.local.base_url",
            "RETINUE_PROVIDERS__LOCAL__BASE_URL",
        ),
        ("lease_seconds = nan", "lease_seconds", "RETINUE_LEASE_SECONDS"),
        ("durability = 'fast'", "durability", "RETINUE_DURABILITY"),
        ("queue = 'a b'", "queue", "RETINUE_QUEUE"),
        ("max_depth = ", "retinue.toml", "correct that line"),
    ],
)
def test_a_wrong_setting_is_named_with_its_mend(file: str, setting: str, mend: str) -> None:
    Path("retinue.toml").write_text(file)
    with pytest.raises(SettingsError) as caught:
        Settings.read()
    assert caught.value.setting == setting
    assert mend in (caught.value.mend or "")


@pytest.mark.parametrize(
    ("name", "value", "setting"),
    [
        ("RETINUE_ROUTES", SECRET, "routes"),
        ("RETINUE_STORE_URL", f"redis://:{SECRET}@localhost/x", "store_url"),
        ("RETINUE_STORE_URL", f"amqp://:{SECRET}@localhost/0", "store_url"),
        ("RETINUE_STORE_URL", f"redis://:{SECRET}@localhost:99999/0", "store_url"),
        (
            "RETINUE_HANDLE_KEYS",
            f'[{{"kid": "a", "secret": "{SECRET}", "state": "sign"}}]',
            "handle_keys.0.secret",
        ),
        ("RETINUE_PROVIDERS__L__BASE_URL", f"ftp://{SECRET}", "providers.l.base_url"),
    ],
)
def test_no_value_is_repeated_in_an_error_or_what_it_carries(
    name: str, value: str, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as caught:
        Settings.read()
    assert caught.value.setting == setting
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_a_repr_shows_no_secret() -> None:
    settings = Settings.read(
        store_url=f"redis://user:{SECRET}@localhost/0",
        broker_url=f"redis://localhost/0?password={SECRET}",
        flower_user="me",
        flower_password=SECRET,
        handle_keys=[{"kid": "a", "secret": SECRET * 4, "state": "sign"}],
        llm_configs={"big": {"api_key": SECRET}},
        providers={
            "local": {
                "base_url": "http://l",
                "api_key": SECRET,
                "headers": {"x-key": SECRET},
                "overrides": {"user": SECRET},
            }
        },
    )
    assert SECRET not in repr(settings)
    assert SECRET not in str(settings)
    assert "redis://user:***@localhost/0" in repr(settings)


def test_openai_is_a_provider_when_its_key_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings.read().providers == {}
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    settings = Settings.read()
    key = settings.provider("openai").key()
    assert key is not None
    assert key.get_secret_value() == SECRET
    assert settings.provider("openai").base_url == "https://api.openai.com/v1"
    assert settings.default_provider_name == "openai"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1/v1")
    assert Settings.read().provider("openai").base_url == "http://localhost:1/v1"


def test_a_configured_openai_is_completed_and_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "from-the-variable")
    settings = Settings.read(providers={"openai": {"api": "responses", "api_key": SECRET}})
    provider = settings.provider("openai")
    key = provider.key()
    assert provider.api == "responses"
    assert key is not None
    assert key.get_secret_value() == SECRET


def test_another_provider_never_gets_the_openai_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    assert Settings.read(providers={"local": {"base_url": "http://l"}}).provider("local").key() is None


def test_a_provider_has_no_limits_unless_one_is_set_and_none_is_below_1() -> None:
    house = {"base_url": "http://house/v1"}
    settings = Settings.read(providers={"house": house, "narrow": {**house, "max_concurrency": 1}})
    assert settings.provider("house").limits is None
    assert settings.provider("narrow").limits == ProviderLimits(max_concurrency=1)
    for name in ("max_concurrency", "requests_per_minute", "tokens_per_minute"):
        with pytest.raises(SettingsError, match=name):
            Settings.read(providers={"house": {**house, name: 0}})


def test_an_unknown_provider_lists_those_there_are() -> None:
    settings = Settings.read(providers={"b": {"base_url": "http://b"}, "a": {"base_url": "http://a"}})
    with pytest.raises(SettingsError, match="use one of a, b"):
        settings.provider("c")
    with pytest.raises(SettingsError, match="set OPENAI_API_KEY"):
        Settings.read().provider("c")


def test_a_key_is_read_from_the_variable_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings.read(providers={"local": {"base_url": "http://l", "api_key_env": "LOCAL_KEY"}})
    with pytest.raises(SettingsError, match="LOCAL_KEY is not set"):
        settings.provider("local").key()
    monkeypatch.setenv("LOCAL_KEY", SECRET)
    key = settings.provider("local").key()
    assert key is not None
    assert key.get_secret_value() == SECRET


@pytest.mark.parametrize(
    ("providers", "default", "expected"),
    [
        ((), None, None),
        (("a",), None, "a"),
        (("a", "openai"), None, "openai"),
        (("a", "b"), None, None),
        (("a", "b"), "b", "b"),
    ],
)
def test_the_default_provider_is_the_only_one_or_openai(
    providers: tuple[str, ...], default: str | None, expected: str | None
) -> None:
    configured = {name: {"base_url": f"http://{name}"} for name in providers}
    settings = Settings.read(providers=configured, default_provider=default)
    assert settings.default_provider_name == expected


def test_without_a_store_the_mend_is_said() -> None:
    with pytest.raises(SettingsError, match=r"RETINUE_STORE_URL.*retinue up"):
        _ = Settings.read().required_store_url


def test_the_broker_is_the_store_unless_it_is_named() -> None:
    settings = Settings.read(store_url="redis://localhost:6379/1")
    assert settings.required_broker_url == "redis://localhost:6379/1"
    assert Settings.read(broker_url="amqp://localhost//").required_broker_url == "amqp://localhost//"


def test_a_unix_socket_is_spelt_for_each_library() -> None:
    settings = Settings.read(store_url="unix://:p%40ss@/run/valkey.sock?db=2")
    assert settings.required_store_url == "unix://:p%40ss@/run/valkey.sock?db=2"
    assert settings.required_broker_url == "redis+socket://:p%40ss@/run/valkey.sock?virtual_host=2"


@pytest.mark.parametrize(
    ("store", "broker", "same"),
    [
        ("redis://localhost/0", None, True),
        ("redis://localhost/0", "redis://127.0.0.1:6379", True),
        ("redis://localhost/0", "redis://:password@LOCALHOST:6379/0", True),
        ("redis://localhost/0", "redis://localhost:6379/1", False),
        ("redis://localhost/0", "redis://localhost:6380/0", False),
        ("redis://localhost/0", "redis://elsewhere:6379/0", False),
        ("redis://localhost/0?db=3", "redis://localhost/3", True),
        ("unix:///run/a.sock?db=1", "redis+socket:///run/a.sock?virtual_host=1", True),
        ("unix:///run/a.sock", "redis+socket:///run/b.sock", False),
        ("redis://localhost/0", "amqp://localhost:6379/0", False),
    ],
)
def test_same_server_compares_server_and_database_only(store: str, broker: str | None, same: bool) -> None:
    assert Settings.read(store_url=store, broker_url=broker).same_server is same


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ([("a", "sign"), ("a", "verify")], "each kid"),
        ([("a", "sign"), ("b", "sign")], "exactly one"),
        ([("a", "verify")], "exactly one"),
    ],
)
def test_a_key_ring_that_cannot_sign_is_refused(keys: list[tuple[str, str]], fault: str) -> None:
    ring = [{"kid": kid, "secret": "x" * 32, "state": state} for kid, state in keys]
    with pytest.raises(SettingsError, match=fault):
        Settings.read(handle_keys=ring)


def test_a_login_to_flower_is_whole() -> None:
    with pytest.raises(SettingsError, match="flower_user and flower_password"):
        Settings.read(flower_user="me")


def test_a_service_link_of_kubernetes_is_no_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETINUE_FLOWER_PORT", "tcp://10.0.0.7:5555")
    assert Settings.read().flower_port == 5555


def test_settings_are_read_once_per_process(monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_settings()
    monkeypatch.setenv("RETINUE_QUEUE", "later")
    assert load_settings() is first
    reset_settings()
    assert load_settings().queue == "later"


def test_a_misspelt_variable_is_logged_without_its_value(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("RETINUE_STOR_URL", SECRET)
    monkeypatch.setenv("RETINUE_SERVICE_HOST", "10.0.0.7")
    with caplog.at_level(logging.WARNING):
        load_settings()
    assert caplog.messages == ["setting_unknown variable=RETINUE_STOR_URL near=RETINUE_STORE_URL"]


def test_settings_load_without_celery_redis_or_yaml() -> None:
    code = (
        "import sys, retinue.broker.settings\n"
        "print(*sorted({'celery', 'kombu', 'redis', 'yaml'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ))
    assert loaded.stdout.strip() == ""


def test_a_misspelt_member_in_the_environment_is_named_with_its_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("retinue.toml").write_text("[providers.local]\napi_key = 'x'\n")
    monkeypatch.setenv("RETINUE_PROVIDERS__LOCAL__BASE_URLL", "http://l")
    with pytest.raises(SettingsError) as caught:
        Settings.read()
    assert caught.value.setting == "providers.local.base_urll"
    assert "to base_url in RETINUE_PROVIDERS__LOCAL__BASE_URLL" in (caught.value.mend or "")


def test_a_state_file_that_leads_to_no_server_is_no_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    directory = tmp_path / "retinue" / "valkey"
    directory.mkdir(parents=True)
    for text in ("{", "[]", "{}", '{"port": 1}'):
        (directory / STATE_FILE).write_text(text)
        (directory / keeper.PASSWORD_FILE).write_text("p")
        with pytest.raises(SettingsError, match=r"RETINUE_STORE_URL.*retinue up"):
            _ = Settings.read().required_store_url


def test_the_running_store_is_looked_for_where_the_keeper_writes() -> None:
    assert STATE_FILE == keeper.STATE_FILE
