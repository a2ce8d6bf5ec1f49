"""Which URLs a webhook may have, and how names are looked up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from retinue.broker.outbound.target_guard import Resolver
from retinue.broker.settings.http import HttpSettings
from retinue.http.problems import Problem
from retinue.http.webhooks.targets import Targets, place_of, shared


def always(*addresses: str) -> Resolver:
    """A resolver with one answer; without addresses it has none."""

    async def resolve(_host: str, _port: int) -> list[str]:
        if not addresses:
            raise OSError("no such name")
        return list(addresses)

    return resolve


async def refusal(url: str, *addresses: str, must_resolve: bool = True, **settings: Any) -> Problem | None:
    """Why a URL is refused whose host has these addresses; None = it is not."""
    targets = Targets(HttpSettings(**settings), always(*addresses))
    try:
        await targets.check(url, field="url", must_resolve=must_resolve)
    except Problem as problem:
        return problem
    finally:
        targets.close()
    return None


async def test_https_to_a_public_address_is_allowed() -> None:
    assert await refusal("https://h.example/a", "93.184.216.34", "2606:2800:220:1::1") is None


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "224.0.0.1",
        "0.0.0.0",
        "::1",
        "fd00:ec2::254",
        "fe80::1",
        "::ffff:127.0.0.1",
        "64:ff9b::a00:1",
    ],
)
async def test_one_address_that_is_not_public_refuses_the_url(address: str) -> None:
    problem = await refusal("https://h.example/a", "93.184.216.34", address)
    assert problem is not None
    assert (problem.status, problem.field) == (422, "url")
    assert "webhook_private_hosts" in problem.detail


async def test_clear_text_is_refused_unless_the_settings_allow_it() -> None:
    problem = await refusal("http://h.example/a", "93.184.216.34")
    assert problem is not None
    assert problem.limit == "an https:// URL"
    assert await refusal("http://h.example/a", "93.184.216.34", webhook_allow_http=True) is None


@pytest.mark.parametrize(
    ("settings", "address", "allowed"),
    [
        ({"webhook_private_hosts": ("10.1.0.0/16",)}, "10.1.2.3", True),
        ({"webhook_private_hosts": ("10.1.0.0/16",)}, "10.2.2.3", False),
        ({"webhook_private_hosts": ("h.example",)}, "10.2.2.3", True),
        ({"webhook_allow_private_targets": True}, "192.168.1.1", True),
        ({"webhook_allow_private_targets": True}, "169.254.169.254", False),
    ],
)
async def test_the_operator_can_allow_hosts_of_his_own(
    settings: dict[str, Any], address: str, allowed: bool
) -> None:
    assert (await refusal("https://h.example/a", address, **settings) is None) is allowed


async def test_a_host_without_an_address_is_refused_where_it_must_have_one() -> None:
    problem = await refusal("https://h.example/a")
    assert problem is not None
    assert problem.detail == "names a host without an address"
    assert await refusal("https://h.example/a", must_resolve=False) is None


async def test_a_number_that_stands_for_loopback_is_seen_through() -> None:
    targets = Targets(HttpSettings())
    for host in ("2130706433", "0x7f.1", "127.1", "[::ffff:7f00:1]", "localhost"):
        with pytest.raises(Problem):
            await targets.check(f"https://{host}/", field="url", must_resolve=True)
    targets.close()


async def test_those_who_wait_for_the_same_name_ask_once_and_one_may_give_up() -> None:
    asked, answer = 0, asyncio.Event()

    async def slow(_host: str, _port: int) -> list[str]:
        nonlocal asked
        asked += 1
        await answer.wait()
        return ["93.184.216.34"]

    ask = shared(slow)
    waiting = [asyncio.create_task(ask("h.example", 443)) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.wait([waiting[0]])
    answer.set()
    assert await asyncio.gather(*waiting[1:]) == [["93.184.216.34"]] * 2
    assert asked == 1
    assert await ask("h.example", 443) == ["93.184.216.34"]
    assert asked == 2, "an answer is not kept: it may be another by then"


def test_a_place_is_scheme_host_and_port() -> None:
    same = {place_of(url) for url in ("https://h.example/a", "https://H.example/b?c")}
    assert len(same) == 1
    others = ("http://h.example/a", "https://h.example:8443/a", "https://other.example/a")
    assert not same & {place_of(url) for url in others}
