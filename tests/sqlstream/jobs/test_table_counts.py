"""The rows of statement sets: into each table, and from sources that Spark counts once per reader."""

from __future__ import annotations

from typing import Any

import pytest

from sqlstream.jobs.progress import Progress, advanced
from sqlstream.jobs.storage import LocalStorage
from sqlstream.jobs.table_counts import SourceCounts, rows_by_table, source_counts_of
from tests.planner.plans import plan

SET = """
    EXECUTE STATEMENT SET BEGIN
    INSERT INTO totals (auction, total) SELECT auction, price FROM bids;
    INSERT INTO late SELECT auction, CAST(v AS STRING), seen FROM (
        SELECT auction, n AS v, seen FROM bids UNION ALL SELECT 1, v, ts FROM plain);
    END
"""


def report(batch: int, rows: object) -> dict[str, Any]:
    return {
        "batchId": batch,
        "batchDuration": 1,
        "sources": [{"description": "bids", "numInputRows": 20}, {"description": "plain", "numInputRows": 7}],
        "stateOperators": [],
        "observedMetrics": {"sqlstream": {"rows_out": 5}, "tables/totals/la%2Fte": rows},
    }


def test_rows_of_a_source_count_once_however_many_queries_read_it(tmp_path):
    storage = LocalStorage(tmp_path)
    control = f"{tmp_path}/control"
    assert source_counts_of(plan(SET), storage) == SourceCounts(control, (2, 1))
    query = plan("SELECT k FROM plain UNION ALL SELECT k FROM plain")
    assert source_counts_of(query, storage) == SourceCounts(control)
    found = report(0, {})
    assert SourceCounts("control", (2, 1)).rows(found) == 17
    assert SourceCounts("control").rows(found) == 27
    assert SourceCounts("plain").rows(found) == 20  # the path of control rows
    more = {**found, "sources": [*found["sources"], {"description": "memory", "numInputRows": 4}]}
    assert SourceCounts("control", (2, 2)).rows(more) == 15  # sources that no table tells apart


@pytest.mark.parametrize("metric", [{"more_rows": 93}, {"values": [93]}])
def test_rows_of_files_that_an_exchange_reads_count_in_place_of_their_places(metric):
    metrics = {"files/0": metric, "files/1": {"more_rows": None}, "operator/0": {"late_rows": 5}}
    assert SourceCounts("control").rows({**report(0, {}), "observedMetrics": metrics}) == 27 + 93


def test_rows_of_each_table_are_added_up_also_through_connect():
    reports = [report(0, {"rows_0": 3, "rows_1": None}), report(1, {"values": [1, 2]})]
    progress = advanced(Progress(), reports, SourceCounts("control", (2, 1)))
    assert progress.rows_by_table == {"totals": 4, "la/te": 2}
    assert progress.rows_in == 34
    assert rows_by_table({"observedMetrics": {"sqlstream": {"rows_out": 5}}}) == {}
