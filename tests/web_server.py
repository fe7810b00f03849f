"""A server of aiohttp in a thread, for tests of what is received."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@contextmanager
def serving(handler: Handler, port: int = 0) -> Iterator[int]:
    """Serves all paths on a port of this machine, which is given to the block."""
    loop = asyncio.new_event_loop()
    started = Event()
    found: list[int] = []
    stop = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        return await handler(request)

    async def serve() -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        server: Any = site._server
        found.append(server.sockets[0].getsockname()[1])
        started.set()
        await stop.wait()
        await runner.cleanup()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:  # answers that would go on for ever
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def run() -> None:
        loop.run_until_complete(serve())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    thread = Thread(target=run, daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield found[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
