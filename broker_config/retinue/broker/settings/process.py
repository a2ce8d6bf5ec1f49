"""The settings of a process: one class, read from arguments, `RETINUE_` variables and `retinue.toml`.

Credentials stand here and nowhere else: never in the store, a message, a log line or a repr.
"""

from __future__ import annotations

import logging
import os
import tomllib
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from retinue.broker.addresses import for_kombu, for_links, place
from retinue.broker.embedded.running_store import running_store_url
from retinue.broker.server.durability import Durability
from retinue.broker.settings.faults import fault_of_file, first_fault, misspelt_variables
from retinue.broker.settings.file import config_file
from retinue.broker.settings.http import HttpSettings
from retinue.broker.settings.providers import LlmOverride, PriceSettings, ProviderSettings, with_openai
from retinue.broker.settings.sections import (
    BudgetSettings,
    DelegationSettings,
    GroupSettings,
    HandleKeySettings,
    Names,
)
from retinue.broker.settings.tools import AgentSpecSettings, McpSettings, RemoteToolSettings
from retinue.contract.errors import SettingsError
from retinue.store.connections.sentinel_urls import StoreAddress, names_store, parse_store_url
from retinue.store.connections.urls import without_password

_log = logging.getLogger(__name__)

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Settings(BaseSettings):
    """Every setting of Retinue, each with its unit and default and what 0 or None means.

    Sources, first wins: arguments, environment (`RETINUE_STORE_URL`; a section's member with two
    underscores, `RETINUE_DELEGATION__BLOCKED_TOOLS=a,b`; a mapping as JSON), `retinue.toml` in the working
    directory or the file that RETINUE_CONFIG names, defaults. Mappings of several sources are merged; an
    empty variable counts as not set.
    """

    model_config = SettingsConfigDict(
        env_prefix="RETINUE_",
        env_nested_delimiter="__",
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        defer_build=True,
    )

    store_url: str | None = Field(
        default=None,
        description="Redis 7.0+ or Valkey with the truth, or its sentinels. None = that of `retinue up`.",
    )
    broker_url: str | None = Field(
        default=None, description="Celery broker. None = the store's server, which makes a wake-up cheapest."
    )
    store_timeout_seconds: Seconds = Field(
        default=3.0, description="Limit of one connect and of one reply of the store, in seconds."
    )
    durability: Durability = Field(
        default=Durability.EVERYSEC, description="everysec or strict; checked against the server at start."
    )

    agents: Names = Field(default=(), description="Modules that workers import for their agents and tools.")
    queue: str = Field(
        default="retinue", pattern=r"^[A-Za-z0-9_.-]{1,128}$", description="Queue of agents without a route."
    )
    routes: dict[str, str] = Field(
        default_factory=dict,
        description="Queue by agent name or pattern (`triage_*`); exact names win, then the first pattern.",
    )

    providers: dict[str, ProviderSettings] = Field(
        default_factory=dict,
        validate_default=True,
        description="Model providers by name. `openai` is there whenever OPENAI_API_KEY is set.",
    )
    default_provider: str | None = Field(
        default=None, description="Provider of runs that name none. None = the only one, else `openai`."
    )
    default_model: str | None = Field(
        default=None, description="Model of runs that name none. None = their provider's default_model."
    )
    llm_configs: dict[str, LlmOverride] = Field(
        default_factory=dict,
        description="URL, key or model in place of an Agent Spec LLM config's, by its name.",
    )
    prices: dict[str, PriceSettings] = Field(
        default_factory=dict,
        description="Own prices by model or `provider/model`, per million tokens. Others: genai-prices.",
    )
    model_timeout_seconds: Seconds = Field(
        default=600.0, description="Limit of one attempt at one model request, in seconds."
    )
    model_max_attempts: int = Field(
        default=6, ge=1, description="Attempts at one model request, the first included. 1 = never retried."
    )
    model_retry_seconds: float = Field(
        default=900.0,
        ge=0,
        allow_inf_nan=False,
        description="How long after a request's first attempt the last may begin, in seconds. 0 = no retry.",
    )
    tool_result_max_bytes: int = Field(
        default=262_144,
        ge=1_024,
        description="Longest tool result, in bytes of UTF-8; a longer one is cut, visibly.",
    )
    delegation: DelegationSettings = Field(
        default_factory=DelegationSettings, description="Rules for every launch, whoever makes it."
    )
    groups: GroupSettings = Field(default_factory=GroupSettings, description="Limits of groups of agents.")
    parallel_calls: bool = Field(
        default=True,
        description="Whether the calls of one response run side by side. False = one by one, in its order.",
    )
    agent_spec: AgentSpecSettings = Field(
        default_factory=AgentSpecSettings, description="Rules for Agent Spec documents."
    )
    remote_tools: RemoteToolSettings = Field(
        default_factory=RemoteToolSettings, description="Rules for RemoteTools of Agent Spec documents."
    )
    mcp: McpSettings = Field(
        default_factory=McpSettings, description="Rules for MCP tools of Agent Spec documents."
    )
    workspace_root: Path | None = Field(
        default=None,
        description="Directory that holds each working_directory. None = launches that name one are refused.",
    )

    lease_seconds: Seconds = Field(
        default=5.0, ge=1.0, description="How long a silent worker process counts as alive, in seconds."
    )
    hang_seconds: Seconds = Field(
        default=60.0,
        description="How long a worker's loop may stand still before its runs are taken away, in seconds.",
    )
    drain_seconds: float = Field(
        default=30.0,
        ge=0,
        allow_inf_nan=False,
        description="How long calls in flight may go on after SIGTERM, in seconds. 0 = handed back at once.",
    )
    cancel_grace_seconds: float = Field(
        default=5.0,
        ge=0,
        allow_inf_nan=False,
        description="How long a cancelled tool may clean up, in seconds. 0 = not at all.",
    )
    approval_ttl_seconds: int = Field(
        default=86_400,
        ge=1,
        description="How long a human may take to approve or answer a call, in seconds; then it is denied.",
    )
    losses_before_worker_lost: int = Field(
        default=3, ge=1, description="Counted losses of a run's worker after which it fails with WORKER_LOST."
    )

    budget: BudgetSettings = Field(
        default_factory=BudgetSettings, description="Of root runs that bring none of their own."
    )
    max_iterations: int = Field(
        default=50, ge=1, description="Model requests of one run, unless it says otherwise."
    )
    max_depth: int = Field(
        default=4, ge=0, description="Deepest run of a tree; the root is 0. 0 = no run may delegate."
    )
    max_live_children: int = Field(
        default=20, ge=0, description="Unfinished children of one run. 0 = none allowed."
    )
    max_tree_children: int = Field(
        default=1_000, ge=0, description="Children of one tree, ever. 0 = none allowed."
    )
    max_steers: int = Field(
        default=1_000, ge=0, description="Steering messages to one run. 0 = none allowed."
    )
    result_ttl_seconds: int = Field(
        default=3_600, ge=1, description="How long a run can be read after its end, in seconds."
    )
    conversation_ttl_seconds: int = Field(
        default=604_800, ge=1, description="How long an unused conversation is kept, in seconds."
    )

    handle_keys: tuple[HandleKeySettings, ...] = Field(
        default=(), description="Keys that sign handles. Empty = a key that the store makes and keeps."
    )
    on_done_tasks: Names = Field(
        default=(),
        description="Celery tasks of the application that a launch's `on_done` may name. Empty = none.",
    )
    hook_timeout_seconds: Seconds = Field(
        default=10.0, description="How long one call of a hook is waited for, in seconds."
    )

    http: HttpSettings = Field(default_factory=HttpSettings, description="The HTTP API and its page.")
    flower_port: int = Field(default=5555, ge=1, le=65_535, description="Port of `retinue flower`.")
    flower_user: str | None = Field(
        default=None, description="Name to log in to Flower with. None = no log-in."
    )
    flower_password: SecretStr | None = Field(default=None, description="Password to log in to Flower with.")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments, environment, then the file; no `.env` and no secrets directory."""
        return (init_settings, env_settings, TomlConfigSettingsSource(settings_cls, toml_file=config_file()))

    @classmethod
    def read(cls, **values: Any) -> Settings:
        """Read the sources now, past the cache of `load_settings`.

        Args:
            values: settings that win over environment and file.

        Raises:
            SettingsError: a source cannot be read, or a setting is wrong or unknown. The text never
                repeats a value.
        """
        try:
            return cls(**values)
        except ValidationError as error:
            fault = first_fault(error, cls, config_file())
        except (tomllib.TOMLDecodeError, OSError, ValueError) as error:
            fault = fault_of_file(error, config_file())
        # Outside the handlers, so that the value in pydantic's error is not kept as this error's context.
        raise fault

    @field_validator("providers", mode="before")
    @classmethod
    def _complete_openai(cls, value: object) -> object:
        return with_openai(dict(value)) if isinstance(value, dict) else value

    @field_validator("flower_port", mode="before")
    @classmethod
    def _ignore_service_link(cls, value: object) -> object:
        # Kubernetes sets RETINUE_FLOWER_PORT=tcp://10.0.0.7:5555 in pods beside a service `retinue-flower`.
        return 5555 if isinstance(value, str) and value.startswith("tcp://") else value

    @field_validator("store_url")
    @classmethod
    def _check_store_url(cls, value: str | None) -> str | None:
        if value is not None:
            _check_server_url(value)
        return value

    @field_validator("broker_url")
    @classmethod
    def _check_broker_url(cls, value: str | None) -> str | None:
        if value is not None and "://" not in value:
            raise ValueError("must be a URL, as in redis://localhost:6379/0")
        if value is not None and names_store(value):
            _check_server_url(value)
        return value

    @field_validator("handle_keys")
    @classmethod
    def _check_handle_keys(cls, value: tuple[HandleKeySettings, ...]) -> tuple[HandleKeySettings, ...]:
        kids = [key.kid for key in value]
        if len(set(kids)) != len(kids):
            raise ValueError("each kid may stand there once")
        if value and sum(key.state == "sign" for key in value) != 1:
            raise ValueError('exactly one key must have state = "sign"')
        return value

    @model_validator(mode="after")
    def _check_flower_login(self) -> Settings:
        if (self.flower_user is None) != (self.flower_password is None):
            raise ValueError("flower_user and flower_password must be set together")
        return self

    def __repr_args__(self) -> Any:
        for name, value in super().__repr_args__():
            shown = name in ("store_url", "broker_url") and isinstance(value, str)
            yield name, without_password(value) if shown else value

    @property
    def required_store_url(self) -> str:
        """The store's URL, for our own links; that of the user's `retinue up` when store_url is None.

        Raises:
            SettingsError: store_url is None, and no `retinue up` runs.
        """
        url = self.store_url or running_store_url()
        if url is None:
            raise SettingsError(
                "there is no store",
                setting="store_url",
                mend="set RETINUE_STORE_URL, as in redis://localhost:6379/0, or run `retinue up`",
            )
        return for_links(parse_store_url(url))

    @property
    def required_broker_url(self) -> str:
        """The broker's URL, in kombu's spelling; the store's server when broker_url is None.

        Raises:
            SettingsError: broker_url and store_url are None, and no `retinue up` runs.
        """
        address = self.broker_address
        return for_kombu(address) if address is not None else self.broker_url or ""

    @property
    def broker_address(self) -> StoreAddress | None:
        """Where the broker is; None = it is neither a Redis nor a Valkey. Raises as `required_broker_url`."""
        url = self.broker_url or self.required_store_url
        return parse_store_url(url) if names_store(url) else None

    @property
    def same_server(self) -> bool:
        """Whether broker and store are one server and database, so that a script may push wake-ups itself."""
        if self.broker_url is None:
            return True
        if self.store_url is None or not names_store(self.broker_url):
            return False
        return place(parse_store_url(self.broker_url)) == place(parse_store_url(self.store_url))

    @property
    def default_provider_name(self) -> str | None:
        """Name of the provider of runs that name none; None when the settings leave it open."""
        if self.default_provider is not None:
            return self.default_provider
        if len(self.providers) == 1:
            return next(iter(self.providers))
        return "openai" if "openai" in self.providers else None

    def provider(self, name: str) -> ProviderSettings:
        """The whole bundle of one provider.

        Raises:
            SettingsError: no provider has that name; the text lists those there are.
        """
        found = self.providers.get(name)
        if found is None:
            known = ", ".join(sorted(self.providers))
            raise SettingsError(
                "there is no provider of that name" if known else "no provider is configured",
                setting=f"providers.{name}",
                mend=f"use one of {known}, or add it" if known else "set OPENAI_API_KEY, or add the provider",
            )
        return found


def _check_server_url(url: str) -> None:
    try:
        parse_store_url(url)
    except SettingsError as error:
        # pydantic adds which setting it is to a ValueError only; `first_fault` the mend.
        raise ValueError(error.message) from None


_loaded: Settings | None = None


def load_settings() -> Settings:
    """The settings of this process, read at the first call.

    Raises:
        SettingsError: as `Settings.read`.
    """
    global _loaded
    if _loaded is None:
        _loaded = Settings.read()
        for name, near in misspelt_variables(os.environ, Settings).items():
            _log.warning("setting_unknown variable=%s near=%s", name, near)
    return _loaded


def reset_settings() -> None:
    """Forget what `load_settings` read; for tests and for a process that changed its environment."""
    global _loaded
    _loaded = None
