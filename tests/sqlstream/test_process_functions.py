# ruff: noqa: A002
"""Process functions in jobs: what a failure says, and what is left of the state after it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from sqlstream.errors import ExecutionError, UnsupportedError
from sqlstream.planner.physical import explain_physical
from sqlstream.planner.rules import optimize
from sqlstream.testing import StreamTest
from sqlstream.testing.spark import LocalSession
from sqlstream.udfs.process import ProcessContext, ProcessFunction, Row, ValueState
from tests.planner.plans import physical, plan


class Sum(NamedTuple):
    total: int


class Sums(ProcessFunction):
    total = ValueState(int, default=0)

    def eval(self, ctx: ProcessContext, input: Row) -> Iterator[Sum]:
        if input.v < 0 and Path(input.obstacle).exists():
            raise ValueError(f"{input.v} is negative")
        self.total.value += input.v
        yield Sum(self.total.value)


SCRIPT = """
CREATE TABLE numbers (k STRING, v INT, obstacle STRING) WITH ('connector' = 'test');
SELECT * FROM sums(TABLE numbers PARTITION BY k);
"""


@pytest.mark.spark
def test_a_failure_names_function_key_and_row_and_the_job_goes_on_from_its_checkpoint(tmp_path):
    obstacle = tmp_path / "obstacle"
    obstacle.touch()
    with LocalSession() as session:
        session.register_function("sums", Sums)
        with StreamTest(SCRIPT, session) as test:
            test.rows("numbers", [("a", 1, str(obstacle)), ("b", 5, str(obstacle))])
            assert sorted(test.output()) == [("+I", "a", 1), ("+I", "b", 5)]
            with pytest.raises(ExecutionError) as error:
                test.rows("numbers", [("b", 1, str(obstacle)), ("a", -1, str(obstacle))])
            actual = error.value.diagnostic
            assert actual.code == "SS440"
            assert actual.message == 'process function "sums" failed in eval: ValueError: -1 is negative'
            assert actual.detail is not None
            assert actual.detail.startswith("It was called for Row(k='a', v=-1, obstacle=")
            assert "of the key k = 'a'. See line 30 of " in actual.detail
            assert '/test_process_functions.py". Job ' in actual.detail
            obstacle.unlink()
            test._job.stop()
            test._job.start()
            test.rows("numbers", [("b", 10, str(obstacle))])
            assert sorted(test.output()) == [("+I", "a", 0), ("+I", "b", 6), ("+I", "b", 16)]


def test_state_needs_kernels():
    keyed = optimize(plan("SELECT * FROM process(TABLE bids PARTITION BY n)"))
    assert "exchange by key group, kernel that calls the function row by row, state in RocksDB" in explain_physical(
        physical(keyed)
    )
    by_row = optimize(plan("SELECT * FROM check(TABLE bids, 1)"))
    assert "mapInArrow that calls the function row by row" in explain_physical(physical(by_row, "native"))
    with LocalSession() as session:
        session.register_function("sums", Sums)
        session.sql("CREATE TABLE numbers (k STRING, v INT, obstacle STRING) WITH ('connector' = 'test')")
        session.sql("SET 'sqlstream.engine' = 'native'")
        with pytest.raises(UnsupportedError, match=r"SS390: .*PARTITION BY.*native"):
            session.sql("SELECT * FROM sums(TABLE numbers PARTITION BY k)")
