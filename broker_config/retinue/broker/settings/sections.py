"""The parts of the settings with a shape of their own: names, durability, delegation, handle keys."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)
from pydantic_settings import NoDecode

from retinue.contract import Budget, OnSpent, SubagentLifecycleError

_HANDLE_SECRET_MIN_CHARS = 32


def split_commas(value: object) -> object:
    """Read `a, b` from a variable as two names; a list is left alone."""
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    return value


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(split_commas)]
"""A list of names: a TOML array, or text with commas in a variable."""


class DelegationSettings(BaseModel):
    """Rules for every launch, whoever makes it."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    blocked_tools: Names = Field(
        default=(), description="Tools that no run may use. Empty = none is blocked."
    )
    background: bool = Field(
        default=False,
        description="Models may let sub-agents work in the background, unless AgentConfig says otherwise.",
    )
    default_agent_name: str = Field(
        default="assistant",
        min_length=1,
        max_length=64,
        description="Name shown for a run without `agent`: generic instructions, the granted toolsets.",
    )


class GroupSettings(BaseModel):
    """Limits of the groups of Agent Spec: whatever reaches one ends INTERRUPTED, with its last text."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    max_rounds: int = Field(
        default=100, ge=0, description="Messages among a group's members in one run of it. 0 = none allowed."
    )
    max_handoffs: int = Field(default=20, ge=0, description="Handoffs of one run. 0 = none allowed.")
    max_depth: int = Field(
        default=4, ge=0, description="Messages above a member's run, each sent to answer the one before."
    )


class BudgetSettings(BaseModel):
    """The budget of root runs that bring none of their own, and what is reserved from any budget."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    input_tokens: int | None = Field(default=None, description="As in a request's budget. None = no cap.")
    output_tokens: int | None = Field(default=None, description="Likewise.")
    tokens: int | None = Field(default=None, description="Likewise, of both together.")
    usd: float | str | None = Field(default=None, description="In USD, in whole millionths. None = no cap.")
    tool_calls: int | None = Field(default=None, description="As in a request's budget. None = no cap.")
    wall_seconds: float | None = Field(default=None, description="From the run's launch on. None = no cap.")
    on_spent: OnSpent = Field(
        default=OnSpent.PAUSE, description="pause = the run waits for a raise; stop = it ends."
    )
    estimated_output_tokens: int = Field(
        default=8_192,
        ge=1,
        description="Reserved for a model's answer, of an agent that sets no max_tokens.",
    )

    @model_validator(mode="after")
    def _must_be_a_budget(self) -> BudgetSettings:
        try:
            self.of_roots  # noqa: B018
        except SubagentLifecycleError as error:
            fault = f"{error.field}: {error.message}; {error.limit}"
        else:
            return self
        raise ValueError(fault)

    @cached_property
    def of_roots(self) -> Budget | None:
        """As a request would bring it; None = no cap is set."""
        caps = self.model_dump(exclude={"estimated_output_tokens", "on_spent"}, exclude_none=True)
        return Budget(**caps, on_spent=self.on_spent) if caps else None


class HandleKeySettings(BaseModel):
    """One key of the ring that signs handles."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)

    kid: str = Field(
        pattern=r"^[A-Za-z0-9_-]{1,32}$", description="Name of the key; part of each handle it signs."
    )
    secret: SecretStr = Field(description="The key itself, 32 characters or more.")
    state: Literal["verify", "sign"] = Field(
        default="verify",
        description="sign = new handles use it (exactly one key); verify = old ones stay valid.",
    )

    @field_validator("secret")
    @classmethod
    def _must_be_long(cls, value: SecretStr) -> SecretStr:
        if len(value.get_secret_value()) < _HANDLE_SECRET_MIN_CHARS:
            raise ValueError(
                f"must have {_HANDLE_SECRET_MIN_CHARS} characters or more; "
                'python -c "import secrets; print(secrets.token_urlsafe(32))" makes one'
            )
        return value
