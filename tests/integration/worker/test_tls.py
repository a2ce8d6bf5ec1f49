"""Every connection of ours over TLS: links, subscriptions, and the sidecar with its own socket."""

import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from retinue.contract.errors import StoreUnavailableError
from retinue.store import keys
from retinue.store.connections.async_subscription import AsyncSubscriptions
from retinue.store.connections.link import AsyncLink
from retinue.store.connections.subscription import Subscriptions
from retinue.store.connections.sync_link import SyncLink
from retinue.testing.processes import ProcessFailedError
from retinue.testing.servers import PrivateServer, ServerKind, server_binary
from retinue.worker.process.lease import Lease


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a self-signed certificate for localhost and 127.0.0.1."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl on this machine")
    folder = tmp_path_factory.mktemp("tls")
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout key.pem -out cert.pem"
    )
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([*command.split(), *names], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def tls_url(certificate: Path) -> Iterator[str]:
    """A server that listens with TLS too, as far as its build can."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    for kind in ServerKind:
        if server_binary(kind) is None:
            continue
        server = PrivateServer(
            kind,
            password="secret",
            config={
                "tls-port": str(port),
                "tls-cert-file": str(certificate / "cert.pem"),
                "tls-key-file": str(certificate / "key.pem"),
                "tls-ca-cert-file": str(certificate / "cert.pem"),
                "tls-auth-clients": "no",
            },
        )
        try:
            server.start()
        except ProcessFailedError:
            server.close()  # built without TLS
            continue
        yield f"rediss://:secret@localhost:{port}/2?ssl_ca_certs={certificate / 'cert.pem'}"
        server.close()
        return
    pytest.skip("no server with TLS on this machine")


async def test_both_links_talk_over_tls(tls_url: str):
    link = AsyncLink(tls_url)
    value = b"x" * 300_000
    assert await link.execute("SET", "k", value) == b"OK"
    assert await link.execute("GET", "k") == value
    await link.close()
    sync = SyncLink(tls_url, max_connections=1)
    assert sync.execute("GET", "k") == value
    threading.Event().wait(0.1)  # idle long enough to be looked at before its next use
    first = sync.execute("CLIENT", "ID")
    threading.Event().wait(0.1)
    assert sync.execute("CLIENT", "ID") == first
    sync.close()


async def test_a_certificate_that_cannot_be_checked_is_refused_unless_told_otherwise(tls_url: str):
    unchecked = tls_url.partition("?")[0]
    for url, accepted in ((unchecked, False), (f"{unchecked}?ssl_cert_reqs=none", True)):
        link, sync = AsyncLink(url), SyncLink(url)
        if accepted:
            assert await link.execute("PING") == sync.execute("PING") == b"PONG"
        else:
            with pytest.raises(StoreUnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
                await link.execute("PING")
            with pytest.raises(StoreUnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
                sync.execute("PING")
        await link.close()
        sync.close()


async def test_subscriptions_wake_over_tls(tls_url: str):
    link = AsyncLink(tls_url)
    sync = Subscriptions(tls_url)
    with sync.watch("c", "k") as wake:
        await link.execute("PUBLISH", "c", "k")
        assert wake.wait(30)
    sync.close()
    subscriptions = AsyncSubscriptions(tls_url)
    async with subscriptions.watch("c", "k") as woken:
        await link.execute("PUBLISH", "c", "k")
        assert await woken.wait(30)
    await subscriptions.close()
    await link.close()


def test_the_sidecar_keeps_and_drops_a_lease_over_tls(tls_url: str):
    lease = Lease("p", tls_url)
    lease.start()
    assert lease.wait_held(30)
    sync = SyncLink(tls_url)
    assert sync.execute("EXISTS", keys.lease("p")) == 1
    lease.close()
    assert sync.execute("EXISTS", keys.lease("p")) == 0
    sync.close()


def test_the_tls_server_of_these_tests_speaks_tls(tls_url: str):
    plain = SyncLink(tls_url.replace("rediss", "redis").partition("?")[0], connect_timeout_s=1)
    with pytest.raises(StoreUnavailableError):
        plain.execute("PING")
    plain.close()
