"""An HTTP server that answers after a fixed time, in a process of its own: what lookups are measured against.

``GET /items/7`` gives ``{"id": 7, "name": "item 7"}``, ``POST /items`` with a JSON array of ids gives an array of them,
after 20 ms; every hundredth id takes 2 s under ``/slow`` in place of ``/items``.
"""

from __future__ import annotations

import asyncio
import sys

from aiohttp import web

LATENCY_S, SLOW_S, SLOW_EVERY = 0.02, 2.0, 100


def item(number: int) -> dict[str, object]:
    return {"id": number, "name": f"item {number}"}


async def one(request: web.Request) -> web.Response:
    await asyncio.sleep(LATENCY_S)
    return web.json_response(item(int(request.match_info["id"])))


async def sometimes_slow(request: web.Request) -> web.Response:
    number = int(request.match_info["id"])
    await asyncio.sleep(LATENCY_S if number % SLOW_EVERY else SLOW_S)
    return web.json_response(item(number))


async def several(request: web.Request) -> web.Response:
    asked = await request.json()
    await asyncio.sleep(LATENCY_S)
    return web.json_response([item(number) for number in asked])


async def serve() -> None:
    app = web.Application()
    app.add_routes([web.get("/items/{id}", one), web.get("/slow/{id}", sometimes_slow), web.post("/items", several)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=2048).start()
    sys.stdout.write(f"listening on http://127.0.0.1:{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve())
