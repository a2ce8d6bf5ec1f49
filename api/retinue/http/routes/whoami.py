"""GET /v1/whoami: what the credentials of a request amount to."""

from __future__ import annotations

from fastapi import APIRouter

from retinue.http.access import Reader
from retinue.http.schemas.whoami import WhoAmI

router = APIRouter(tags=["access"])


@router.get("/v1/whoami", operation_id="whoami", summary="What these credentials amount to")
async def whoami(caller: Reader) -> WhoAmI:
    """Tenant and scopes of the API key or token."""
    return WhoAmI(tenant=caller.tenant, scopes=sorted(caller.scopes), key_id=caller.key_id, name=caller.name)
