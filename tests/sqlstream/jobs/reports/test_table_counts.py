"""The rows of jobs in the reports of Spark's micro-batches: read from sources, and written into each table."""

from __future__ import annotations

from typing import Any

import pytest

from sqlstream.jobs.reports.counts import rows_by_table, rows_read, rows_read_by_table
from sqlstream.jobs.reports.progress import Progress, advanced


def report(batch: int, rows: object) -> dict[str, Any]:
    return {
        "batchId": batch,
        "batchDuration": 1,
        "sources": [{"description": "bids", "numInputRows": 99}],
        "stateOperators": [],
        "observedMetrics": {
            "sqlstream": {"rows_out": 5},
            "source/0/bids": {"rows": 10},
            "source/1/la%2Fte": {"rows": 7},
            "tables/totals/la%2Fte": rows,
        },
    }


@pytest.mark.parametrize("metric", [{"rows": 93}, {"values": [93]}])
def test_rows_read_are_those_of_sources_and_of_files_that_an_exchange_reads(metric: dict[str, Any]) -> None:
    metrics = {
        "files/0/0/u": metric,
        "files/1/0/v": {"rows": None},
        "operator/0": {"late_rows": 5},
        "source/2/t": metric,
    }
    assert rows_read({**report(0, {}), "observedMetrics": metrics}) == 93 + 93
    assert rows_read({"sources": []}) == 0


def test_rows_read_are_told_by_table() -> None:
    metrics = {"files/0/0/la%2Fte": {"rows": 2}, "files/3/1/bids": {"rows": 30}, "operator/0": {"late_rows": 5}}
    of_sources = report(0, {})["observedMetrics"]
    assert rows_read_by_table({"observedMetrics": {**of_sources, **metrics}}) == {"bids": 40, "la/te": 9}


def test_rows_of_each_table_are_added_up_also_through_connect() -> None:
    reports = [report(0, {"rows_0": 3, "rows_1": None}), report(1, {"values": [1, 2]})]
    progress = advanced(Progress(), reports)
    assert progress.rows_by_table == {"totals": 4, "la/te": 2}
    assert progress.rows_in == 34
    assert rows_by_table({"observedMetrics": {"sqlstream": {"rows_out": 5}}}) == {}
