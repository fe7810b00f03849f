"""Rows as MySQL and MariaDB send them to who asks in the text protocol: of each value its length and its text.

https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_query_response_text_resultset_row.html
"""

from __future__ import annotations

import numpy as np

from sqlstream.formats.binlog import BinlogError, Spans, little_endian

_NULL = 0xFB
_LONG = ((0xFC, 2), (0xFD, 3), (0xFE, 8))


def text_rows(data: np.ndarray, starts: np.ndarray, ends: np.ndarray, columns: int) -> tuple[Spans, ...]:
    """Where the values of rows are that stand in ``data`` between these positions. BinlogError where a row does not end
    where it should.
    """
    found = []
    at = starts
    for _ in range(columns):
        first = data.take(at, mode="clip").astype(np.int64)
        present = first != _NULL
        lengths, begins = np.where(present, first, 0), at + 1
        for mark, size in _LONG:
            some = np.flatnonzero(first == mark)
            if len(some):
                lengths[some] = little_endian(data, at[some] + 1, size)
                begins[some] += size
        found.append(Spans(begins, lengths, present))
        at = begins + lengths
    if (at != ends).any():
        raise BinlogError("a row that was copied is damaged")
    return tuple(found)
