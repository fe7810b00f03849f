"""The weather at New York's airports over HTTP: ``GET /weather/EWR/2013-01-31T05`` and, for several hours at once,
``POST /weather`` with a JSON array of ``{"origin": …, "hour": …}``.

    python -m examples.lookups.weather_server [--port 0] [--latency-ms 20]
"""

from __future__ import annotations

import argparse
import asyncio
import json

import pandas as pd
from aiohttp import web

from examples.lookups.servers import read

COLUMNS = ["temp", "wind_speed", "visib"]


def observations(weather: pd.DataFrame) -> pd.DataFrame:
    """By ``origin`` and ``hour`` of New York's wall clock; of an hour that comes twice, in November, the first."""
    clock = pd.to_datetime(weather[["year", "month", "day", "hour"]])
    frame = weather.assign(hour=clock.dt.strftime("%Y-%m-%dT%H"))
    return frame.drop_duplicates(["origin", "hour"])[["origin", "hour", *COLUMNS]]


def application(latency_ms: int) -> web.Application:
    rows = observations(read("weather"))
    known = {(row["origin"], row["hour"]): row for row in json.loads(rows.to_json(orient="records"))}

    async def one(request: web.Request) -> web.Response:
        await asyncio.sleep(latency_ms / 1000)
        row = known.get((request.match_info["origin"], request.match_info["hour"]))
        return web.json_response(row, status=200 if row else 404)

    async def several(request: web.Request) -> web.Response:
        asked = await request.json()
        await asyncio.sleep(latency_ms / 1000)
        collected = (known.get((key["origin"], key["hour"])) for key in asked)
        return web.json_response([row for row in collected if row])

    app = web.Application()
    app.add_routes([web.get("/weather/{origin}/{hour}", one), web.post("/weather", several)])
    return app


async def serve(port: int, latency_ms: int) -> None:
    runner = web.AppRunner(application(latency_ms), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    host, bound = runner.addresses[0][:2]
    print(f"listening on http://{host}:{bound}", flush=True)
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve the weather at New York's airports in 2013.")
    parser.add_argument("--port", type=int, default=0, help="0: one that is free")
    parser.add_argument("--latency-ms", type=int, default=20, help="how long an answer takes")
    chosen = parser.parse_args()
    asyncio.run(serve(chosen.port, chosen.latency_ms))


if __name__ == "__main__":
    main()
