"""Requests that share round trips: each gets its own answer, or its own error."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from sqlstream.udfs.lookup.source import Key
from sqlstream.udfs.lookup.sources.clients import SharedRoundTrips


class Down(Exception):
    pass


class Source:
    """Answers ``-key`` when ``gate`` is open; no answer to ``bad`` keys."""

    def __init__(self, *bad: int, down: bool = False, only_alone: bool = False) -> None:
        self.bad, self.down, self.only_alone = set(bad), down, only_alone
        self.trips: list[list[object]] = []
        self.ended = 0
        self.gate = asyncio.Event()

    async def fetch(self, keys: Sequence[Key]) -> list[int]:
        asked = [key[0] for key in keys]
        self.trips.append(list(asked))
        if self.only_alone and len(asked) > 1:
            raise ValueError("too many")
        try:
            await self.gate.wait()
        finally:
            self.ended += 1
        if self.down:
            raise Down
        if self.bad & set(asked):
            raise ValueError(f"bad: {sorted(self.bad & set(asked))}")
        return [-int(str(one)) for one in asked]

    def together(self, at_once: int = 2, most: int = 4) -> SharedRoundTrips[int]:
        return SharedRoundTrips(self.fetch, at_once, most, of_all=lambda error: isinstance(error, Down))


async def started(together: SharedRoundTrips[int], *requests: Sequence[int]) -> list[asyncio.Task[Sequence[int]]]:
    tasks = [asyncio.create_task(together.ask([(key,) for key in keys])) for keys in requests]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


async def outcomes(tasks: Sequence[asyncio.Task[Sequence[int]]]) -> list[object]:
    answers = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)
    return [str(one) or type(one).__name__ if isinstance(one, BaseException) else one for one in answers]


def test_requests_wait_for_a_round_trip_and_go_together():
    async def run() -> None:
        source = Source()
        together = source.together()
        tasks = await started(together, [1])
        tasks += await started(together, [2])
        tasks += await started(together, [3], [4, 5], [6], [7], [8, 9, 10, 11, 12])
        assert source.trips == [[1], [2]]
        source.gate.set()
        assert await outcomes(tasks) == [[-1], [-2], [-3], [-4, -5], [-6], [-7], [-8, -9, -10, -11, -12]]
        assert source.trips[2:] == [[3, 4, 5, 6], [7], [8, 9, 10, 11, 12]]

    asyncio.run(run())


def test_only_those_fail_that_are_to_blame():
    async def run() -> None:
        source = Source(3)
        together = source.together(at_once=1)
        tasks = await started(together, [1], [2], [3], [4])
        source.gate.set()
        assert await outcomes(tasks) == [[-1], [-2], "bad: [3]", [-4]]
        assert source.trips == [[1, 2, 3, 4], [1], [2], [3], [4]]

    asyncio.run(run())


def test_errors_of_the_connection_are_of_all():
    async def run() -> None:
        source = Source(down=True)
        together = source.together(at_once=1)
        tasks = await started(together, [1], [2], [3])
        source.gate.set()
        assert await outcomes(tasks) == ["Down"] * 3
        assert len(source.trips) == 1
        source.down = False
        assert await outcomes(await started(together, [4])) == [[-4]]

    asyncio.run(run())


def test_who_is_cancelled_takes_no_others_answer_away():
    async def run() -> None:
        source = Source()
        together = source.together(at_once=1)
        tasks = await started(together, [1], [2])
        late = await started(together, [3])
        tasks[0].cancel()
        late[0].cancel()
        await asyncio.sleep(0)
        source.gate.set()
        assert (await outcomes(tasks))[1] == [-2]
        assert source.trips == [[1, 2]]

    asyncio.run(run())


def test_a_round_trip_that_nobody_waits_for_ends_and_others_go_on():
    async def run() -> None:
        source = Source()
        together = source.together(at_once=1)
        gone = await started(together, [1], [2])
        others = await started(together, [3])
        for task in gone:
            task.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        assert source.ended == 1
        source.gate.set()
        assert await outcomes(others) == [[-3]]

    asyncio.run(run())


@pytest.mark.parametrize("cancelled", [0, 1, 2])
def test_cancelling_while_requests_are_asked_alone_harms_no_other(cancelled: int):
    async def run() -> None:
        source = Source(only_alone=True)
        together = source.together(at_once=1)
        tasks = await started(together, [1], [2], [3])
        assert source.trips == [[1, 2, 3], [1]]
        tasks[cancelled].cancel()
        for _ in range(3):
            await asyncio.sleep(0)
        source.gate.set()
        actual = await outcomes(tasks)
        del actual[cancelled]
        assert actual == [[-key] for key in (1, 2, 3) if key != cancelled + 1]

    asyncio.run(run())


def test_closing_ends_what_is_under_way():
    async def run() -> None:
        source = Source()
        together = source.together()
        tasks = await started(together, [1], [2])
        for task in tasks:
            task.cancel()
        await together.close()
        assert source.ended == len(source.trips)

    asyncio.run(run())
