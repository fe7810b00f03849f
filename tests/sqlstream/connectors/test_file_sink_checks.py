"""Directories that a job goes on writing to: as it has left them, or refused with the files as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream.connectors.environment import UNKNOWN_RANGE, SinkWriteRange
from sqlstream.connectors.files.sink import require_log
from sqlstream.errors import SqlStreamError
from sqlstream.planner.catalog import Table
from sqlstream.udfs.files.sink_log import LOG

TABLE = Table("t", (), "filesystem")
SINCE_EVER = SinkWriteRange(-1)


def fill(folder: Path, what: str) -> Path:
    """``log 0-12``: a log of Spark's with a compact entry; ``files``, ``batch 3`` and ``hidden`` are what they say."""
    folder.mkdir()
    for part in filter(None, what.split(", ")):
        kind, _, numbers = part.partition(" ")
        if kind == "log":
            (folder / LOG).mkdir()
            first, last = map(int, numbers.split("-"))
            for n in range(first, last + 1):
                (folder / LOG / (f"{n}.compact" if n % 10 == 9 else str(n))).write_text("v1")
        elif kind == "batch":
            (folder / f"sqlstream_batch={numbers}").mkdir()
        else:
            (folder / {"files": "part-0.json", "hidden": ".part"}[kind]).touch()
    return folder


@pytest.mark.parametrize(
    ("what", "stay", "streamed", "code"),
    [
        ("log 0-12, files", SINCE_EVER, True, None),
        ("log 9-12, files", SINCE_EVER, True, None),
        ("log 0-13, files", SINCE_EVER, True, None),
        ("files", SINCE_EVER, True, "SS420"),
        ("", SINCE_EVER, True, "SS420"),
        ("log 0-11, files", SINCE_EVER, True, "SS420"),
        ("log 10-12, files", SINCE_EVER, True, "SS420"),
        ("log 0-4, files", SinkWriteRange(-1, 4), True, None),
        ("files", SinkWriteRange(-1, 4), True, "SS420"),
        ("", SinkWriteRange(12), True, None),
        ("hidden", SinkWriteRange(12), True, None),
        ("log 0-12, files", UNKNOWN_RANGE, True, None),
        ("", UNKNOWN_RANGE, True, None),
        ("files", UNKNOWN_RANGE, True, "SS420"),
        ("", None, True, None),
        ("hidden", None, True, None),
        ("files", None, True, "SS508"),
        ("log 0-12", None, True, "SS508"),
        ("batch 12", None, False, "SS508"),
        ("batch 12", SINCE_EVER, False, None),
        ("", SINCE_EVER, False, None),
        ("log 0-12", SINCE_EVER, False, "SS434"),
        ("batch 12", SINCE_EVER, True, "SS434"),
    ],
)
def test_what_a_job_finds_where_it_goes_on(tmp_path: Path, what: str, stay, streamed: bool, code: str | None) -> None:
    folder = fill(tmp_path / "out", what)
    before = sorted(folder.rglob("*"))
    if code is None:
        require_log(TABLE, folder, stay, 12, streamed)
    else:
        with pytest.raises(SqlStreamError) as error:
            require_log(TABLE, folder, stay, 12, streamed)
        assert error.value.code == code
        assert str(folder) in error.value.diagnostic.message
        assert error.value.diagnostic.hint
    assert sorted(folder.rglob("*")) == before


def test_a_directory_that_is_gone_is_told_where_rows_were_in_it(tmp_path: Path) -> None:
    require_log(TABLE, tmp_path / "none", None, 12, True)
    with pytest.raises(SqlStreamError, match=r"SS420: .* does not tell of its files up to micro-batch 12"):
        require_log(TABLE, tmp_path / "none", SINCE_EVER, 12, True)
