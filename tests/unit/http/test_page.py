"""The page's files: how they are named and sent, and what may not stand in them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from importlib.resources import files

import httpx2
import pytest
from fastapi import FastAPI

from retinue.http.page.assets import POLICY, load_assets
from retinue.http.routes import page

STATIC = files("retinue.http.page") / "static"
SOURCES = {file.name: file.read_text() for file in STATIC.iterdir()}


@pytest.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    app = FastAPI()
    app.include_router(page.router)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://page") as made:
        yield made


async def test_the_page_names_its_files_and_all_of_them_are_there(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    named = re.findall(r'(?:href|src)="([^"]+)"', answer.text)
    assert {name.rpartition("/")[2] for name in named} == SOURCES.keys() - {"index.html"}
    for name in named:
        sent = await client.get(f"/{name}")
        assert sent.status_code == 200
        assert "immutable" in sent.headers["cache-control"]
        assert sent.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("main.js", "text/javascript; charset=utf-8"),
        ("base.css", "text/css; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
    ],
)
async def test_a_file_has_its_type_and_is_not_sent_twice(
    client: httpx2.AsyncClient, name: str, kind: str
) -> None:
    address = f"/assets/{load_assets().digest}/{name}"
    first = await client.get(address)
    assert first.headers["content-type"] == kind
    again = await client.get(address, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "address",
    [
        "/assets/0000000000000000/main.js",
        "/assets/{digest}/index.html",
        "/assets/{digest}/__init__.py",
        "/assets/{digest}/..%2fassets.py",
        "/assets/{digest}/%2e%2e/assets.py",
    ],
)
async def test_nothing_else_is_sent(client: httpx2.AsyncClient, address: str) -> None:
    assert (await client.get(address.format(digest=load_assets().digest))).status_code == 404


async def test_the_policy_lets_nothing_in_from_elsewhere_and_nothing_inline(
    client: httpx2.AsyncClient,
) -> None:
    policy = (await client.get("/")).headers["content-security-policy"]
    assert policy == POLICY
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    index = SOURCES["index.html"]
    assert re.search(r"<style|style=|<script>|\son\w+=|https?://", index) is None


@pytest.mark.parametrize("name", sorted(name for name in SOURCES if name.endswith(".js")))
def test_no_module_turns_text_into_markup_or_code_or_leaves_the_origin(name: str) -> None:
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|https?://|localStorage|cookie"
    assert re.findall(forbidden, SOURCES[name]) == []


@pytest.mark.parametrize("name", sorted(name for name in SOURCES if name.endswith((".js", ".css"))))
def test_each_file_is_short_enough_to_read(name: str) -> None:
    assert SOURCES[name].count("\n") <= 250
