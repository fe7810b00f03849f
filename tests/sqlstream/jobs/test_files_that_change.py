"""The log of a job says once that a file has changed after it was read."""

from __future__ import annotations

import json

from sqlstream.jobs.reports.progress import FilesRead
from sqlstream.udfs.files.listed import FILES, MISSING_METRIC, SIZES


def report(**sizes: int) -> dict:
    return {"observedMetrics": {f"{MISSING_METRIC}/0/t": {FILES: 0, SIZES: json.dumps(sizes)}}}


def test_a_file_that_has_grown_or_was_replaced_is_noticed_once(tmp_path):
    first, second = tmp_path / "1.csv", tmp_path / "2.csv"
    first.write_text("1\n")
    second.write_text("2\n")
    files = FilesRead()
    assert files.notice([report(**{str(first): 2})]) is None
    assert files.notice([report(**{str(second): 2})]) is None
    first.unlink()
    assert files.notice([]) is None, "files may be deleted once they are read"
    second.write_text("2\n3\n")
    assert files.notice([]) == (
        f'file "{second}" has changed after it was read; what is new in it is not read. Add files under new names.'
    )
    second.write_text("4\n5\n6\n")
    assert files.notice([report()]) is None
