from __future__ import annotations

import pytest
from tests.unit.http.asgi import Plain, call, request_scope

from retinue.http.middleware.security_headers import SecurityHeaders


@pytest.mark.parametrize("path", ["/", "/v1/runs", "/healthz"])
async def test_every_answer_has_them(path: str) -> None:
    headers = (await call(SecurityHeaders(Plain()), request_scope("GET", path))).headers

    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert not any(name.startswith("access-control-") for name in headers)


async def test_nothing_of_the_api_is_kept_by_a_cache() -> None:
    app = SecurityHeaders(Plain())

    assert (await call(app, request_scope("GET", "/v1/runs"))).headers["cache-control"] == "no-store"
    assert "cache-control" not in (await call(app, request_scope("GET", "/page.css"))).headers


async def test_what_an_answer_says_itself_stays() -> None:
    app = SecurityHeaders(
        Plain({"cache-control": "no-cache", "content-security-policy": "default-src 'none'"})
    )

    headers = (await call(app, request_scope("GET", "/v1/runs"))).headers

    assert headers["cache-control"] == "no-cache"
    assert headers["content-security-policy"] == "default-src 'none'"
