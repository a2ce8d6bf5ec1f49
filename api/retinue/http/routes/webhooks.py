"""Webhooks of a tenant: endpoints, their secrets, and what they were told."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.responses import Response

from retinue.http.access import Admin
from retinue.http.json_answer import JsonAnswer
from retinue.http.run_pages import PAGE, PAGE_MAX
from retinue.http.schemas.answer import Answer
from retinue.http.schemas.webhooks import (
    CreatedWebhookAnswer,
    DeliveriesAnswer,
    DeliveryAnswer,
    SecretAnswer,
    WebhookAnswer,
    WebhookBody,
    WebhooksAnswer,
)
from retinue.http.service import service_of
from retinue.http.webhooks.registry import Registry

router = APIRouter(tags=["webhooks"])


_LOCATION: Final = {"headers": {"Location": {"description": "The endpoint.", "schema": {"type": "string"}}}}


async def _registry(request: Request, caller: Admin) -> Registry:
    return Registry(service_of(request), caller.tenant)


_Registry = Annotated[Registry, Depends(_registry)]
_WebhookId = Annotated[
    str,
    Path(
        description="The endpoint's id; `per-run` stands for the webhooks that launches name.",
        examples=["wh_3f0c9a4be1d27c5588aa01ef"],
    ),
]
_DeliveryId = Annotated[
    str,
    Path(
        description="The header webhook-id of the delivery.",
        examples=["msg_0a4d55a8d778e5022fab701977c5d840bbc486d0"],
    ),
]


@router.post("/v1/webhooks", status_code=201, response_model=CreatedWebhookAnswer, responses={201: _LOCATION})
async def create_webhook(body: WebhookBody, registry: _Registry) -> Response:
    """Registers an endpoint, which is told of the ends of root runs; the secret is shown this once."""
    endpoint, secret = await registry.add(body.url, body.description)
    answer = {**WebhookAnswer.of(endpoint).model_dump(mode="json"), "secret": secret}
    return JsonAnswer(answer, 201, {"Location": f"/v1/webhooks/{endpoint.webhook_id}"})


@router.get("/v1/webhooks", response_model=WebhooksAnswer)
async def list_webhooks(registry: _Registry) -> Response:
    """The tenant's endpoints, without their secrets."""
    return _shown(WebhooksAnswer(webhooks=[WebhookAnswer.of(endpoint) for endpoint in await registry.all()]))


@router.get("/v1/webhooks/{webhook_id}", response_model=WebhookAnswer)
async def webhook(webhook_id: _WebhookId, registry: _Registry) -> Response:
    """One endpoint, without its secret."""
    return _shown(WebhookAnswer.of(await registry.one(webhook_id)))


@router.delete("/v1/webhooks/{webhook_id}", status_code=204)
async def delete_webhook(webhook_id: _WebhookId, registry: _Registry) -> Response:
    """Deletes an endpoint with its log; what is still pending is not told any more."""
    await registry.remove(webhook_id)
    return Response(status_code=204)


@router.post("/v1/webhooks/{webhook_id}/rotate-secret", response_model=SecretAnswer)
async def rotate_secret(webhook_id: _WebhookId, registry: _Registry) -> Response:
    """Gives the endpoint another secret; for 24 hours both sign. For per-run it may be the first."""
    secret, until = await registry.rotate(webhook_id)
    return _shown(SecretAnswer(webhook_id=webhook_id, secret=secret, former_secret_until=until))


@router.post("/v1/webhooks/{webhook_id}/enable", response_model=WebhookAnswer)
async def enable_webhook(webhook_id: _WebhookId, registry: _Registry) -> Response:
    """Has an endpoint told again that was disabled since it answered 410."""
    return _shown(WebhookAnswer.of(await registry.enable(webhook_id)))


@router.get("/v1/webhooks/{webhook_id}/deliveries", response_model=DeliveriesAnswer)
async def deliveries(
    webhook_id: _WebhookId,
    registry: _Registry,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX, description="Longest page.")] = PAGE,
    cursor: Annotated[str | None, Query(description="next_cursor of the page before.")] = None,
) -> Response:
    """What the endpoint was told in the last seven days, or is still to be told, the last queued first."""
    page, next_cursor = await registry.page(webhook_id, cursor=cursor, most=limit)
    shown = [DeliveryAnswer.of(delivery) for delivery in page]
    return _shown(DeliveriesAnswer(deliveries=shown, next_cursor=next_cursor))


@router.post(
    "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver",
    status_code=202,
    response_model=DeliveryAnswer,
)
async def redeliver(webhook_id: _WebhookId, delivery_id: _DeliveryId, registry: _Registry) -> Response:
    """Makes a delivery due at once, whatever became of it; it keeps its id."""
    return _shown(DeliveryAnswer.of(await registry.redeliver(webhook_id, delivery_id)), 202)


def _shown(answer: Answer, status: int = 200) -> Response:
    return JsonAnswer(answer.model_dump(mode="json"), status)
