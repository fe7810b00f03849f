"""What servers give to the plainest client there is: so many loops, each of which asks again when it has its answer.

No queue, no order, no timeout, no Arrow: the limit that lookups are compared with.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from examples.throughput.clock import Clock, Speed

Ask = Callable[[int], Awaitable[object]]


def measured(kind: str, address: str, concurrency: int, rows: int) -> Speed:
    """Of ``http``, ``postgres`` or ``redis`` at ``address``."""

    async def run() -> Speed:
        numbers = iter(range(rows))
        async with _CLIENTS[kind](address, concurrency) as ask:

            async def loop() -> None:
                for number in numbers:
                    await ask(number)
                    clock.count()

            clock = Clock(rows)
            await asyncio.gather(*(loop() for _ in range(concurrency)))
            return clock.speed()

    return asyncio.run(run())


@asynccontextmanager
async def _http(address: str, concurrency: int) -> AsyncIterator[Ask]:
    from aiohttp import ClientSession, TCPConnector

    async with ClientSession(connector=TCPConnector(limit=concurrency)) as session:

        async def ask(number: int) -> object:
            async with session.get(f"{address}/items/{number}") as answer:
                return json.loads(await answer.read())

        yield ask


@asynccontextmanager
async def _postgres(address: str, concurrency: int) -> AsyncIterator[Ask]:
    from psycopg import AsyncConnection

    async with AsyncExitStack() as stack:
        count = min(concurrency, CONNECTIONS["postgres"])
        opened = [await AsyncConnection.connect(address, autocommit=True) for _ in range(count)]
        for connection in opened:
            await stack.enter_async_context(connection)
        turns = itertools.cycle(opened)

        async def ask(number: int) -> object:
            actual = await next(turns).execute("SELECT name FROM items WHERE id = %s", (number,), prepare=True)
            return await actual.fetchall()

        yield ask


@asynccontextmanager
async def _redis(address: str, concurrency: int) -> AsyncIterator[Ask]:
    from redis.asyncio import BlockingConnectionPool, Redis

    pool = BlockingConnectionPool.from_url(address, max_connections=min(concurrency, CONNECTIONS["redis"]))
    async with Redis(connection_pool=pool) as client:

        async def ask(number: int) -> object:
            return await client.hmget(f"item:{number}", ["name"])

        yield ask


CONNECTIONS = {"postgres": 8, "redis": 32}
"""At most so many, as the connectors have by default."""

_CLIENTS = {"http": _http, "postgres": _postgres, "redis": _redis}
