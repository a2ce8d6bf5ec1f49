"""One rig for each file of HTTP tests: a store, a scripted model, one API process, no worker yet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.acceptance.http.http_rig import HttpRig, http_rig
from tests.acceptance.http.page_rig import Page, browser


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpRig]:
    """The rig; `web.rig.worker()` starts workers, `web.http()` is a client with a key of all scopes.

    Agents: boss, chief, clerk and locator, whose models the tests script, and echo, which has none.
    """
    with http_rig(tmp_path_factory.mktemp("http"), agents="ask_agents,echo_agents") as rig:
        # Several processes start at once on a small machine: one that is late is not lost.
        rig.api(store_timeout_seconds=30.0)
        yield rig


@pytest.fixture(scope="module")
def page(web: HttpRig) -> Iterator[Page]:
    """The page of the rig's first API process, in a browser of the module's own."""
    with browser() as chrome:
        yield Page(chrome, web.apis[0].url)
