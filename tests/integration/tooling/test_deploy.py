"""The shipped server configuration is one that the servers accept."""

from __future__ import annotations

from pathlib import Path

from retinue.testing.servers import PrivateServer

CONFIG = Path(__file__).parents[3] / "deploy" / "redis.conf"


def test_the_shipped_configuration_is_accepted_and_in_force(store_server: PrivateServer) -> None:
    lines = CONFIG.read_text().splitlines()
    shipped = dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))
    assert {"maxmemory-policy", "appendonly"} <= set(shipped)

    with PrivateServer(store_server.kind, config=shipped) as server:
        in_force = server.client().config_get(*shipped)

    assert in_force == shipped
