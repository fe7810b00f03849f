"""All rows of a table that is looked up, for queries over finished data: one request without keys, asked in a task."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sqlstream.errors import ExecutionError
from sqlstream.udfs.lookup.answers import AnswerShape
from sqlstream.udfs.lookup.source import LookupSource, Row
from sqlstream.udfs.texts import reason_of

NOT_READ = "SS610"
_PACK = 10_000
"""Rows of an Arrow batch."""


@dataclass(frozen=True)
class WholeTable:
    """``source`` answers a request without keys with every row that passes the request's filters."""

    source: LookupSource

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the table for each row of the input, of which there is one. ExecutionError SS610."""
        shape = AnswerShape(self.source.request)
        for batch in batches:
            for _ in range(batch.num_rows):
                table_rows = self._asked(shape)
                for start in range(0, len(table_rows), _PACK):
                    yield pa.RecordBatch.from_struct_array(shape.lists([table_rows[start : start + _PACK]]).flatten())

    def _asked(self, shape: AnswerShape) -> Sequence[Row]:
        try:
            (answer,) = shape.checked(1, asyncio.run(self._answers()))
        except Exception as error:
            raise self._failed(reason_of(error)) from error
        if isinstance(answer, Exception):
            raise self._failed(str(answer)) from answer
        return answer

    async def _answers(self) -> Sequence[Sequence[Row]]:
        client = await self.source.open()
        try:
            return await client.ask([()])
        finally:
            await client.close()

    def _failed(self, reason: str) -> ExecutionError:
        return ExecutionError(NOT_READ, f'table "{self.source.name}" cannot be read: {reason}')
