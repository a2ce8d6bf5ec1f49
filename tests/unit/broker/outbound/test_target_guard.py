from __future__ import annotations

import ipaddress

import pytest

from retinue.broker.outbound.target_guard import Reach, TargetGuard, TargetRefusedError, reach_of
from retinue.broker.settings.tools import RemoteToolSettings


@pytest.mark.parametrize(
    ("address", "reach"),
    [
        ("93.184.216.34", Reach.PUBLIC),
        ("2606:2800:220:1::1", Reach.PUBLIC),
        ("127.0.0.1", Reach.PRIVATE),
        ("127.9.9.9", Reach.PRIVATE),
        ("::1", Reach.PRIVATE),
        ("10.0.0.1", Reach.PRIVATE),
        ("172.16.0.1", Reach.PRIVATE),
        ("192.168.1.1", Reach.PRIVATE),
        ("100.64.0.1", Reach.PRIVATE),
        ("100.100.100.200", Reach.PRIVATE),
        ("fd00:ec2::254", Reach.PRIVATE),
        ("fec0::1", Reach.PRIVATE),
        ("169.254.169.254", Reach.CLOSED),
        ("fe80::1", Reach.CLOSED),
        ("224.0.0.1", Reach.CLOSED),
        ("ff02::1", Reach.CLOSED),
        ("0.0.0.0", Reach.CLOSED),
        ("0.1.2.3", Reach.CLOSED),
        ("::", Reach.CLOSED),
        ("255.255.255.255", Reach.CLOSED),
        # An IPv4 address within an IPv6 one: mapped, compatible, 6to4, NAT64, Teredo.
        ("::ffff:127.0.0.1", Reach.PRIVATE),
        ("::ffff:169.254.169.254", Reach.CLOSED),
        ("::ffff:10.0.0.1", Reach.PRIVATE),
        ("::127.0.0.1", Reach.CLOSED),
        ("2002:7f00:1::", Reach.PRIVATE),
        ("2002:a9fe:a9fe::", Reach.CLOSED),
        ("64:ff9b::7f00:1", Reach.PRIVATE),
        ("64:ff9b::a9fe:a9fe", Reach.CLOSED),
        ("64:ff9b::5db8:d822", Reach.PUBLIC),
        ("64:ff9b:1::a00:1", Reach.PRIVATE),
    ],
)
def test_an_address_belongs_to_the_most_closed_network_that_it_can_lead_to(
    address: str, reach: Reach
) -> None:
    assert reach_of(ipaddress.ip_address(address)) is reach


def guard(*addresses: str, **settings: object) -> TargetGuard:
    async def resolve(_host: str, _port: int) -> list[str]:
        return list(addresses)

    return TargetGuard(RemoteToolSettings.model_validate(settings), resolve)


async def test_a_public_host_may_be_reached_at_all_its_addresses() -> None:
    addresses = ["93.184.216.34", "2606:2800:220:1::1"]
    assert await guard(*addresses).addresses("example.com", 443) == addresses


async def test_one_private_address_among_public_ones_is_enough_to_refuse_a_host() -> None:
    with pytest.raises(TargetRefusedError, match=r"example\.com has a private address.*private_hosts"):
        await guard("93.184.216.34", "10.0.0.1").addresses("example.com", 443)


async def test_the_general_leave_opens_private_networks_but_not_the_cloud_s_metadata() -> None:
    assert await guard("10.0.0.1", allow_private_targets=True).addresses("h", 80) == ["10.0.0.1"]
    with pytest.raises(TargetRefusedError):
        await guard("169.254.169.254", allow_private_targets=True).addresses("h", 80)


@pytest.mark.parametrize(
    ("allowed", "host", "address"),
    [
        ("benefits.internal", "Benefits.Internal.", "10.0.0.1"),
        ("10.0.0.0/8", "anything", "10.2.3.4"),
        ("169.254.169.254", "metadata", "169.254.169.254"),
        ("[::1]", "localhost", "::1"),
    ],
)
async def test_a_host_an_address_or_a_network_can_be_allowed_by_name(
    allowed: str, host: str, address: str
) -> None:
    assert await guard(address, private_hosts=(allowed,)).addresses(host, 80) == [address]


async def test_an_allowed_host_opens_no_other() -> None:
    with pytest.raises(TargetRefusedError):
        await guard("10.0.0.1", private_hosts=("a.internal",)).addresses("b.internal", 80)


async def test_a_number_that_stands_for_loopback_is_seen_through() -> None:
    for host in ("2130706433", "0x7f.1", "127.1"):
        with pytest.raises((TargetRefusedError, OSError)):
            await TargetGuard(RemoteToolSettings()).addresses(host, 80)
