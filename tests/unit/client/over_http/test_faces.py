"""The facades over HTTP have all that the direct ones have, and are made in their place."""

from __future__ import annotations

import copy
import inspect
import subprocess
import sys
from typing import Any

import pytest

from retinue.client import AsyncSubagentLifecycle, SubagentLifecycle, SubagentLifecycleError
from retinue.client.over_http import AsyncHttpLifecycle, HttpLifecycle

URL = "https://agents.example.com/retinue"
PAIRS = [(SubagentLifecycle, HttpLifecycle), (AsyncSubagentLifecycle, AsyncHttpLifecycle)]
# A running agent has a way to the store; and a steer is a sent one whose receipt is looked at.
SHARED = {"of_parent", "steer"}
both = pytest.mark.parametrize(("direct", "over_http"), PAIRS)


def methods(kind: type) -> dict[str, Any]:
    found = inspect.getmembers(kind, callable)
    return {name: method for name, method in found if not name.startswith("_")}


@both
def test_every_method_has_its_own_way_over_http(direct: Any, over_http: Any) -> None:
    assert methods(direct).keys() == methods(over_http).keys()
    for name, method in methods(direct).items():
        assert inspect.signature(method) == inspect.signature(methods(over_http)[name]), name
        if name not in SHARED:
            assert name in vars(over_http), f"{name} would go to the store"
    assert inspect.signature(direct.__init__) == inspect.signature(over_http.__init__)


@both
def test_a_url_makes_the_facade_over_http(direct: Any, over_http: Any) -> None:
    for made in (direct("s", url=URL, api_key="k"), direct.operator(url=URL, api_key="k")):
        assert type(made) is over_http
        assert isinstance(made, direct)
        assert isinstance(copy.copy(made), over_http)
        assert "'https://agents.example.com/retinue'" in repr(made)
    assert type(direct("s")) is direct


@both
def test_a_class_of_ones_own_is_made_as_it_says(direct: Any, over_http: Any) -> None:
    class Shop(direct):
        def __init__(self, *, shop: int, **way: Any) -> None:
            super().__init__(f"shop-{shop}", **way)

    class WebShop(over_http):
        def __init__(self, *, shop: int) -> None:
            super().__init__(f"shop-{shop}", url=URL, api_key="k")

    assert type(Shop(shop=1)) is Shop
    assert type(WebShop(shop=1)) is WebShop
    with pytest.raises(SubagentLifecycleError, match="HttpLifecycle"):
        Shop(shop=1, url=URL)


@both
@pytest.mark.parametrize(
    ("way", "field"),
    [
        ({"api_key": "k"}, "api_key"),
        ({"url": URL, "api_key": "k", "settings": object()}, "settings"),
        ({"url": URL, "api_key": ""}, "api_key"),
        ({"url": URL, "api_key": "k\n"}, "api_key"),
        ({"url": URL, "api_key": "schlüssel"}, "api_key"),
        ({"url": URL, "api_key": 5}, "api_key"),
        ({"url": "", "api_key": "k"}, "url"),
        ({"url": "agents.example.com", "api_key": "k"}, "url"),
        ({"url": "ftp://agents.example.com", "api_key": "k"}, "url"),
        ({"url": "http://", "api_key": "k"}, "url"),
        ({"url": "http://host:port", "api_key": "k"}, "url"),
        ({"url": "http://[::1", "api_key": "k"}, "url"),
        ({"url": "http://two words", "api_key": "k"}, "url"),
        ({"url": "http://host:99999", "api_key": "k"}, "url"),
        ({"url": "https://me:secret@agents.example.com", "api_key": "k"}, "url"),
        ({"url": "https://agents.example.com?x=1", "api_key": "k"}, "url"),
        ({"url": 5, "api_key": "k"}, "url"),
        ({"url": URL, "api_key": "k", "tenant": "a:b"}, "tenant"),
        ({"url": URL, "api_key": "k", "session_id": "a{b}"}, "session_id"),
    ],
)
def test_what_leads_nowhere_is_refused_by_name(
    direct: Any, over_http: Any, way: dict[str, Any], field: str
) -> None:
    with pytest.raises(SubagentLifecycleError) as caught:
        direct(**way)
    assert caught.value.field == field
    assert "secret" not in str(caught.value)


def test_the_key_may_stand_in_the_environment_and_the_address_may_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RETINUE_API_KEY", "rtn_of_the_desk")
    monkeypatch.setenv("RETINUE_URL", URL)
    assert type(SubagentLifecycle("s")) is SubagentLifecycle
    made: Any = SubagentLifecycle("s", url=URL + "/")
    address = made._api.address
    assert (address.url, address.api_key, address.tenant) == (URL, "rtn_of_the_desk", None)
    assert "rtn_of" not in repr(address)
    named: Any = SubagentLifecycle("s", tenant="acme", url=URL)
    assert named._api.address.headers()["Retinue-Tenant"] == "acme"


def test_a_client_over_http_needs_no_settings_and_no_broker() -> None:
    code = (
        "import sys\n"
        "from retinue.client import SubagentLifecycle\n"
        f"SubagentLifecycle('s', url={URL!r}, api_key='k').status({{}})\n"
        "print(*[name for name in ('celery', 'kombu', 'pydantic_settings') if name in sys.modules])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == ""
