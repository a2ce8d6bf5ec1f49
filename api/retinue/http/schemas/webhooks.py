"""Bodies and answers about webhooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final

from pydantic import ConfigDict, Field, JsonValue

from retinue.contract import URL_MAX_CHARS, SubagentState, web_url
from retinue.contract.checked import Checked
from retinue.contract.checks import Check, text
from retinue.http.schemas.answer import Answer
from retinue.http.schemas.runs import RunId
from retinue.store.operations.deliveries import Delivery, DeliveryState
from retinue.store.operations.webhooks import Disabled, Endpoint

DESCRIPTION_MAX_CHARS: Final = 200
_WEBHOOK: Final[dict[str, JsonValue]] = {"webhook_id": "wh_3f0c9a4be1d27c5588aa01ef"}
_DELIVERY_ID: Final = "msg_0a4d55a8d778e5022fab701977c5d840bbc486d0"
_ENDPOINT: Final[dict[str, JsonValue]] = {
    **_WEBHOOK,
    "url": "https://shop.example/hooks/retinue",
    "description": "the shop's order desk",
    "created_at": 1_798_761_600.25,
    "disabled": None,
    "former_secret_until": None,
}
_SHOWN_SECRET: Final[dict[str, JsonValue]] = {"secret": "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"}
_DELIVERY: Final[dict[str, JsonValue]] = {
    "delivery_id": _DELIVERY_ID,
    **_WEBHOOK,
    "url": None,
    "run_id": "sa-p07-abcdefghijklmnopqrstuvwxyz",
    "session_id": "customer-42",
    "run_state": "SUCCEEDED",
    "state": "pending",
    "attempts": 1,
    "queued_at": 1_798_761_604.5,
    "last_attempt_at": 1_798_761_605.1,
    "next_attempt_at": 1_798_761_610.3,
    "response_status": 503,
    "duration_seconds": 0.087,
    "error": "status",
}


def _example(value: JsonValue) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [value]})


class WebhookBody(Checked):
    """An endpoint that is told of the end of each root run that the tenant launches from now on."""

    model_config = ConfigDict(
        defer_build=False,
        json_schema_extra={"examples": [{"url": _ENDPOINT["url"], "description": _ENDPOINT["description"]}]},
    )
    checks: ClassVar[Mapping[str, Check]] = {
        "url": web_url,
        "description": text(max_chars=DESCRIPTION_MAX_CHARS, blank=True),
    }

    url: str = Field(
        description="https, and a host with public addresses, unless the operator allows others.",
        json_schema_extra={"minLength": 1, "maxLength": URL_MAX_CHARS, "format": "uri"},
    )
    description: str = Field(
        default="",
        description="What it is, for its owner.",
        json_schema_extra={"maxLength": DESCRIPTION_MAX_CHARS},
    )


class WebhookAnswer(Answer):
    """An endpoint, or `per-run`, which stands for the webhooks that launches name."""

    model_config = _example(_ENDPOINT)

    webhook_id: str
    url: str | None = Field(description="null = each run's own.")
    description: str
    created_at: float | None = Field(description="Epoch seconds; null for per-run.")
    disabled: Annotated[Disabled, Field(strict=False)] | None = Field(
        description="Why it is not told any more; null = it is."
    )
    former_secret_until: float | None = Field(
        description="Until when the former secret signs too, in epoch seconds; null = there was none."
    )

    @classmethod
    def of(cls, endpoint: Endpoint) -> WebhookAnswer:
        """An endpoint as it is shown."""
        return cls(
            webhook_id=endpoint.webhook_id,
            url=endpoint.url,
            description=endpoint.description,
            created_at=endpoint.created_at,
            disabled=endpoint.disabled,
            former_secret_until=endpoint.former_signs_until,
        )


class CreatedWebhookAnswer(WebhookAnswer):
    """A new endpoint, and the secret that signs what it is told: this is the only time that it is shown."""

    model_config = _example({**_ENDPOINT, **_SHOWN_SECRET})

    secret: str = Field(repr=False, description="`whsec_` and base64, as Standard Webhooks has it.")


class WebhooksAnswer(Answer):
    """The tenant's endpoints."""

    model_config = _example({"webhooks": [_ENDPOINT]})

    webhooks: list[WebhookAnswer] = Field(description="Oldest first.")


class SecretAnswer(Answer):
    """A new secret: this is the only time that it is shown."""

    model_config = _example({**_WEBHOOK, **_SHOWN_SECRET, "former_secret_until": 1_798_848_000.25})

    webhook_id: str
    secret: str = Field(repr=False, description="`whsec_` and base64, as Standard Webhooks has it.")
    former_secret_until: float | None = Field(
        description="Until when the secret before it signs too, in epoch seconds; null = there was none."
    )


class DeliveryAnswer(Answer):
    """One run's end, told to one endpoint."""

    model_config = _example(_DELIVERY)

    delivery_id: str = Field(description="The header webhook-id of each attempt.")
    webhook_id: str
    url: str | None = Field(description="Of a run's own webhook; null = the endpoint's.")
    run_id: RunId
    session_id: str
    run_state: Annotated[SubagentState, Field(strict=False)]
    state: Annotated[DeliveryState, Field(strict=False)]
    attempts: int = Field(description="Since it was last queued.")
    queued_at: float = Field(description="Epoch seconds.")
    last_attempt_at: float | None = Field(description="Epoch seconds; null = none yet.")
    next_attempt_at: float | None = Field(description="Epoch seconds; null = it is over.")
    response_status: int | None = Field(description="Of the last attempt's answer; null = there was none.")
    duration_seconds: float | None = Field(description="Of the last attempt.")
    error: str | None = Field(
        description="Of the last attempt: status, gone, timeout, connect, tls, protocol, target_refused or "
        "internal; without one: backlog_full or endpoint_disabled."
    )

    @classmethod
    def of(cls, delivery: Delivery) -> DeliveryAnswer:
        """A delivery as it is shown."""
        return cls(
            delivery_id=delivery.delivery_id,
            webhook_id=delivery.webhook_id,
            url=delivery.own_url,
            run_id=delivery.run_id,
            session_id=delivery.session_id,
            run_state=SubagentState(delivery.run_state),
            state=delivery.state,
            attempts=delivery.attempts,
            queued_at=delivery.queued_ms / 1000,
            last_attempt_at=_seconds(delivery.last_attempt_ms),
            next_attempt_at=_seconds(delivery.next_attempt_ms),
            response_status=delivery.response_status,
            duration_seconds=_seconds(delivery.duration_ms),
            error=delivery.error,
        )


class DeliveriesAnswer(Answer):
    """A page of an endpoint's deliveries."""

    model_config = _example({"deliveries": [_DELIVERY], "next_cursor": None})

    deliveries: list[DeliveryAnswer] = Field(description="The last queued first.")
    next_cursor: str | None = Field(description="Where the next page begins; null = this was the last.")


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000
