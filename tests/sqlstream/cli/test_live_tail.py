"""The last rows of a result, in place."""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace

import pyarrow as pa
import pytest

from sqlstream.cli.output import TableWriter, VerticalWriter
from sqlstream.cli.progress import write_tail

QUERY = SimpleNamespace(job=SimpleNamespace(name="query"))


def tables(*batches: list[int]) -> Iterator[pa.Table]:
    return (pa.table({"n": pa.array(numbers, pa.int64())}) for numbers in batches)


def test_the_last_rows_stay_with_the_number_of_all():
    out = io.StringIO()
    write_tail(QUERY, partial(TableWriter, ["n"]), out, 3, tables([1, 2], [3], [4, 5]))  # type: ignore[arg-type]
    assert out.getvalue() == " n\n---\n 3\n 4\n 5\n(5 rows, 3 shown)\n"


def test_nothing_has_come():
    out = io.StringIO()
    write_tail(QUERY, partial(TableWriter, ["n"]), out, 3, tables())  # type: ignore[arg-type]
    assert out.getvalue() == " n\n---\n(0 rows)\n"


def test_ctrl_c_leaves_what_there_is():
    def interrupted() -> Iterator[pa.Table]:
        yield from tables([1, 2])
        raise KeyboardInterrupt

    out = io.StringIO()
    with pytest.raises(KeyboardInterrupt):
        write_tail(QUERY, partial(VerticalWriter, ["n"]), out, 1, interrupted())  # type: ignore[arg-type]
    assert out.getvalue() == "-[ 2 ]\nn | 2\n(2 rows, 1 shown)\n"
