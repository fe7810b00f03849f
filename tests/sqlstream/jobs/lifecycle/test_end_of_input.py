"""The end of bounded input: a run that pauses there is gone on with when more files have come, one that ends is not."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import sqlstream
from sqlstream.errors import SqlStreamError
from sqlstream.jobs import Job, JobState
from sqlstream.statements.jobs import properties
from tests.sqlstream.jobs.kinds import KINDS, LATER, ROWS, Kind, Run, undisturbed, until

pytestmark = pytest.mark.spark

EVERYTHING = Kind(
    {
        "totals": "k STRING, n BIGINT, total BIGINT",
        "sessions": "k STRING, n BIGINT, ids STRING",
        "counted": "k STRING, n BIGINT",
        "silences": "k STRING, last BIGINT, ids STRING",
        "named": "n BIGINT, ids STRING",
    },
    """CREATE VIEW names AS SELECT o.id, o.ts, f.n FROM events AS o, LATERAL TABLE(name_of(o.id)) AS f(n)
    LOOKUP ASYNC (TIMEOUT INTERVAL '0.1' SECOND, ON TIMEOUT DEFER);
    EXECUTE STATEMENT SET BEGIN
    INSERT INTO totals SELECT k, COUNT(*), SUM(id) FROM TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '30' SECOND)
        GROUP BY k, window_start, window_end;
    INSERT INTO sessions SELECT k, COUNT(*), LISTAGG(CAST(id AS STRING), ' ') FROM events
        GROUP BY k, SESSION(ts, INTERVAL '5' SECOND);
    INSERT INTO counted SELECT k, COUNT(*) FROM events GROUP BY k COUNT WINDOW (3 ROWS);
    INSERT INTO silences SELECT k, last, ids FROM silence(TABLE events PARTITION BY k,
        on_time => DESCRIPTOR(ts), uid => 'silence', seconds => 7);
    INSERT INTO named SELECT COUNT(*), LISTAGG(CAST(id AS STRING) || n, ' ')
        FROM TUMBLE(TABLE names, DESCRIPTOR(ts), INTERVAL '30' SECOND) GROUP BY window_start, window_end;
    END""",
    "",
    ROWS,
    LATER,
)
WAITING = (
    "operator 0: 12 rows wait in open windows for the watermark 2024-01-01 00:00:29.999; "
    "operator 1: 3 rows wait in open windows for the watermarks 2024-01-01 00:00:22.999 to 2024-01-01 00:00:26.999; "
    "operator 3: 3 timers wait for the watermarks 2024-01-01 00:00:25 to 2024-01-01 00:00:29; "
    "operator 4: 12 rows wait in open windows for the watermark 2024-01-01 00:00:29.999"
)


def finished(job: Job) -> Job:
    job.wait()
    assert job.state is JobState.FINISHED
    return job


@pytest.mark.long
def test_runs_over_files_as_they_come_give_what_one_run_over_all_of_them_gives(spark: Any, tmp_path: Path) -> None:
    run = Run(spark, tmp_path / "paused", EVERYTHING, watched=False)
    run.put(1, ROWS)
    job = run.start("checkpoints")
    until(lambda: (job.progress().pending or 0) > 0)
    (run.folder / "answers").touch()
    assert finished(job).waiting == WAITING
    assert ("waiting for the next run", WAITING) in properties(job.record).fetchall()
    first = run.output()

    again = finished(run.start("checkpoints"))
    assert (again.progress().rows_in, again.waiting) == (0, WAITING)
    assert run.output() == first

    run.put(2, LATER)
    last = finished(run.start("checkpoints", **{"execution.end-of-input": "final"}))
    assert (last.waiting, last.progress().late_rows) == (None, 0)
    run.close()
    output = run.output()
    assert output == undisturbed(spark, tmp_path / "undisturbed", EVERYTHING)
    assert all(first[name] != output[name] for name in output)


@pytest.mark.long
def test_rows_behind_barriers_wait_for_the_markers_of_the_next_run(spark: Any, tmp_path: Path) -> None:
    kind = KINDS["barriers"]
    run = Run(spark, tmp_path / "paused", kind, watched=False)
    run.put(1, kind.first)
    assert finished(run.start("checkpoints")).waiting == "2 rows wait behind barriers"
    run.put(2, kind.then)
    finished(run.start("checkpoints", **{"execution.end-of-input": "final"}))
    run.close()
    assert run.output() == undisturbed(spark, tmp_path / "undisturbed", kind)


def test_after_the_end_the_next_start_says_what_it_was_and_what_to_do(spark: Any, tmp_path: Path) -> None:
    """Of a job with bounded input when rows have come, of a drained one at once; also from another checkpoint."""
    kind = KINDS["process"]
    run = Run(spark, tmp_path / "ended", kind, watched=False)
    run.put(1, kind.first)
    finished(run.start("checkpoints", **{"execution.end-of-input": "final"}))
    finished(run.start("checkpoints"))
    ended = run.output()
    run.put(2, kind.then)
    for watched in (False, True):
        run.watched = watched
        job = run.start("checkpoints")
        with pytest.raises(SqlStreamError, match="SS422: an earlier run of the job has ended its input") as error:
            job.wait()
        assert "'execution.end-of-input' = 'final'" in (error.value.diagnostic.detail or "")
        assert "'execution.end-of-input' = 'pause'" in (error.value.diagnostic.hint or "")
    origin = str(run.folder / "checkpoints" / job.name)
    with pytest.raises(SqlStreamError, match=r"SS429: .* all of its windows and timers have fired"):
        run.start("others", **{"execution.state-recovery.path": origin})
    run.close()
    assert run.output() == ended == {"silences": Counter(ended["silences"])}


def test_windows_of_processing_time_fire_when_their_time_has_come_or_the_input_ends(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.csv").write_text("1\n2\n3\n")
    script = f"""
    SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints'; SET 'execution.end-of-input' = '{{end}}';
    SET 'parallelism.default' = '1';
    CREATE TABLE t (v INT, pt AS PROCTIME()) WITH (
        'connector' = 'filesystem', 'format' = 'csv', 'path' = '{tmp_path}/in');
    CREATE TABLE soon (n BIGINT) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{tmp_path}/soon');
    CREATE TABLE later (n BIGINT) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{tmp_path}/later');
    EXECUTE STATEMENT SET BEGIN
    INSERT INTO soon SELECT COUNT(*) FROM t GROUP BY TUMBLE(pt, INTERVAL '1' SECOND);
    INSERT INTO later SELECT COUNT(*) FROM t GROUP BY TUMBLE(pt, INTERVAL '3650' DAY);
    END"""

    def run(end: str) -> str | None:
        with sqlstream.connect(spark) as session:
            job = session.sql(script.format(end=end))
            assert isinstance(job, Job)
            return finished(job).waiting

    def written(name: str) -> list[str]:
        return [line for path in (tmp_path / name).rglob("*.csv") for line in path.read_text().split()]

    def soon_has_fired() -> bool:
        """In this run or in one more, without new files."""
        return written("soon") == ["3"] or (run("pause") is not None and written("soon") == ["3"])

    waiting = run("pause") or ""
    assert re.search(r"3 rows wait in open windows for the time 20\d\d-", waiting), waiting
    until(soon_has_fired)
    assert written("later") == []
    assert run("final") is None
    assert (written("soon"), written("later")) == (["3"], ["3"])
