"""HTTP endpoints through which another process reads and steers a scripted server.

GET    /_requests?agent=NAME&bodies=1   the records, with counts
GET    /_counts                         counts only: total, in_flight, peak, by agent, by status
DELETE /_requests                       forget finished requests
POST   /_script                         add scripts (form of a script file)
POST   /_release {"gate": NAME}         let held turns pass
"""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, Protocol

from aiohttp import web

from retinue.testing.record import RequestRecord
from retinue.testing.scripts import ScriptError


class Controlled(Protocol):
    """What the endpoints may do to a server."""

    def load(self, scripts: Mapping[str, Any]) -> None:
        """Add scripts."""
        ...

    def release(self, gate: str) -> None:
        """Open a gate."""
        ...


def add_control_routes(app: web.Application, server: Controlled, record: RequestRecord) -> None:
    """Add the endpoints to an application."""

    async def requests(http: web.Request) -> web.Response:
        agent, bodies = http.query.get("agent"), http.query.get("bodies") == "1"
        listed = [recorded.to_dict(with_body=bodies) for recorded in record.all(agent)]
        counts = {"count": len(listed), "in_flight": record.in_flight(agent), "peak": record.peak(agent)}
        return web.json_response(counts | {"requests": listed})

    async def counts(_http: web.Request) -> web.Response:
        seen = record.all()
        return web.json_response(
            {
                "total": len(seen),
                "in_flight": record.in_flight(),
                "peak": record.peak(),
                "disconnected": sum(r.disconnected for r in seen),
                "agents": Counter(str(r.agent) for r in seen),
                "statuses": Counter(str(r.status) for r in seen),
            }
        )

    async def forget(_http: web.Request) -> web.Response:
        record.forget()
        return web.json_response({})

    async def add_script(http: web.Request) -> web.Response:
        try:
            server.load(json.loads(await http.read()))
        except (ScriptError, ValueError) as error:
            return web.json_response({"error": str(error)}, status=400)
        return web.json_response({})

    async def release(http: web.Request) -> web.Response:
        asked = json.loads(await http.read())
        server.release(str(asked["gate"]))
        return web.json_response({})

    app.router.add_get("/_requests", requests)
    app.router.add_delete("/_requests", forget)
    app.router.add_get("/_counts", counts)
    app.router.add_post("/_script", add_script)
    app.router.add_post("/_release", release)
