"""The page at `/` and its files. Everybody may load them: what they show is asked of /v1, with a key."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from retinue.http.page.assets import POLICY, Asset, load_assets

router = APIRouter(include_in_schema=False)


@router.get("/")
async def page(request: Request) -> Response:
    """The page. It names its files by their digest, so it is asked for again each time."""
    return _answer(load_assets().index, request, "no-cache")


@router.get("/assets/{digest}/{name}")
async def asset(digest: str, name: str, request: Request) -> Response:
    """A file of the page; under another digest it would be another file, so that is not found."""
    assets = load_assets()
    found = assets.named.get(name) if digest == assets.digest else None
    if found is None:
        return Response(status_code=404)
    return _answer(found, request, "public, max-age=31536000, immutable")


def _answer(asset: Asset, request: Request, cache_control: str) -> Response:
    headers = {
        "Cache-Control": cache_control,
        "Content-Security-Policy": POLICY,
        "ETag": asset.tag,
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
    if asset.tag in request.headers.get("If-None-Match", ""):
        return Response(status_code=304, headers=headers)
    return Response(asset.body, media_type=asset.media_type, headers=headers)
