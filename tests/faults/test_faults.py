"""The fault test on little: what it compares, when it strikes, and one job whose driver is killed."""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sqlstream.formats.avro_encoder import AvroWriter
from sqlstream.formats.csv import CsvDecoder
from sqlstream.formats.decoder import Field
from sqlstream.formats.json import JsonDecoder
from sqlstream.types import BIGINT, from_arrow
from sqlstream.udfs.files.avro import AvroFiles, AvroFormat
from sqlstream.udfs.files.columnar import ColumnarFiles
from tests.faults.compare import committed, committed_files, difference
from tests.faults.disk import Disk, disk_at, may_mount
from tests.faults.events import FORMATS, write_as, write_events
from tests.faults.inject import Siege, schedule
from tests.faults.report import Outcome, Report, verdict
from tests.faults.run import besieged, expected_rows, main, undisturbed
from tests.faults.running import Fleet
from tests.faults.struck import Struck

ROWS = pa.table({"k": [1, 2, 2], "at": ["a", "b", "b"]})


def test_equal_rows_do_not_differ():
    assert difference(ROWS, ROWS.slice(0)) is None


@pytest.mark.parametrize(
    ("actual", "said"),
    [
        (ROWS.slice(0, 2), r"2 rows instead of 3; 1 lost, as {'k': 2, 'at': 'b'}"),
        (pa.concat_tables([ROWS, ROWS.slice(0, 1)]), r"4 rows instead of 3; 1 added, as {'k': 1, 'at': 'a'}"),
        (pa.table({"k": [1, 2, 3], "at": ["a", "b", "b"]}), r"3 rows instead of 3; 1 lost, .*; 1 added, as {'k': 3"),
        (pa.table({}), "0 rows instead of 3"),
    ],
)
def test_a_difference_names_a_row(actual, said):

    how = difference(ROWS, actual)
    assert how is not None
    assert re.match(said, how)


def test_rows_with_null_are_equal_to_their_like():
    rows = pa.table({"k": pa.array([None, 1], pa.int64())})
    assert difference(rows, rows.slice(0, 1)) == "1 rows instead of 2; 1 lost, as {'k': 1}"


def test_a_job_that_has_ended_is_not_started_in_another_process(tmp_path):
    siege = plain(tmp_path)
    siege.records.states["tumble"] = "finished"
    siege.run(["driver"])
    assert siege.records.of("tumble", "driver").tried == 0
    assert not list((tmp_path / "run/checkpoints").glob("tumble/job/spark/commits/*"))


def test_files_are_those_of_the_log_of_the_sink(tmp_path):
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    for name in ("old", "a", "b", "orphan"):
        pq.write_table(pa.table({"k": [len(name)]}), tmp_path / f"{name}.parquet")
    _log(log / "8", tmp_path, ["old", "a"])  # what the compact entry holds is not read again
    _log(log / "9.compact", tmp_path, ["a"])
    _log(log / "10", tmp_path, ["b"])
    assert [path.stem for path in committed_files(tmp_path)] == ["a", "b"]
    assert committed(tmp_path).to_pydict() == {"k": [1, 1]}


def _log(path, folder, names):
    entries = [json.dumps({"path": (folder / f"{name}.parquet").as_uri()}) for name in names]
    path.write_text("\n".join(["v1", *entries]))


def test_files_that_tasks_write_are_read_as_those_of_spark(tmp_path):
    batch = pa.record_batch({"k": pa.array([2, 1], pa.int64())})
    for name, writer_of in {
        "a.avro": lambda file: AvroWriter(file, [("k", BIGINT)], "null"),
        "b.arrow": lambda file: pa.ipc.new_file(file, batch.schema),
    }.items():
        folder = tmp_path / name[2:]
        (folder / "_spark_metadata").mkdir(parents=True)
        with (folder / name).open("wb") as file:
            writer = writer_of(file)
            writer.write(batch)
            writer.close()
        (folder / "_spark_metadata" / "0").write_text(f"v1\n{json.dumps({'path': (folder / name).as_uri()})}")
        assert committed(folder).to_pydict() == {"k": [1, 2]}


def test_files_of_micro_batches_are_those_of_their_directories(tmp_path):
    for name in ("sqlstream_batch=0/part-0", "sqlstream_batch=0/_temporary/part-1", "other/part-2"):
        path = tmp_path / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"k": [7]}), path)
    assert committed(tmp_path).to_pydict() == {"k": [7]}
    assert committed(tmp_path / "nothing").num_rows == 0


def test_faults_come_in_an_order_that_repeats_with_the_seed():
    first, again = (schedule(("driver", "disk"), 10, random.Random("1")) for _ in range(2))
    assert first == again != schedule(("driver", "disk"), 10, random.Random("2"))
    assert sorted(first) == ["disk"] * 10 + ["driver"] * 10


def test_events_repeat_with_the_seed(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_events(tmp_path / name, 1_000, 4, seed)
    a, b, c = (pq.read_table(tmp_path / name) for name in "abc")
    assert a.equals(b)
    assert not a.equals(c)
    assert len(list((tmp_path / "a").iterdir())) == 4
    markers = [barrier for barrier in a["barrier"].to_pylist() if barrier is not None]
    assert len(markers) == 180
    assert (
        len({*zip(a["barrier"].to_pylist(), a["channel"].to_pylist(), strict=True)} - {(None, n) for n in range(3)})
        == 180
    )


def test_events_are_the_same_in_each_format(tmp_path):
    write_events(tmp_path / "events", 600, 1, 1)
    source = tmp_path / "events" / "0000.parquet"
    rows = pq.read_table(source)
    kinds = {name: from_arrow(kind) for name, kind in zip(rows.schema.names, rows.schema.types, strict=True)}
    fields = tuple(Field(name, kind) for name, kind in kinds.items())
    for form in FORMATS:
        target = tmp_path / f"0.{form}"
        write_as(form, source, target)
        assert target.stat().st_mtime_ns == source.stat().st_mtime_ns
        match form:
            case "csv":
                read = [CsvDecoder(fields).block(pa.py_buffer(target.read_bytes())).rows]
            case "json":
                read = [JsonDecoder(fields).block(pa.py_buffer(target.read_bytes())).rows]
            case "avro":
                read = [*AvroFiles(AvroFormat(fields)).batches(str(target))]
            case _:
                read = [*ColumnarFiles(form, tuple(kinds.items())).batches(str(target))]
        assert pa.Table.from_batches(read).to_pylist() == rows.to_pylist(), form


def test_jobs_that_read_another_format_get_the_same_files_in_it(tmp_path):
    write_events(tmp_path / "events", 600, 3, 1)
    fleet = Fleet(("tumble", "cut_csv", "read_arrow"), tmp_path / "events", tmp_path / "run")
    fleet.prepare()
    fleet.hand_out(2 / 3)
    for form in ("csv", "arrow"):
        assert sorted(path.name for path in (tmp_path / f"run/events-{form}").iterdir()) == [
            f"000{number}.{form}" for number in range(2)
        ]
    assert "'format' = 'csv', 'source.max-files-per-trigger'" in (tmp_path / "run/cut_csv/job.sql").read_text()
    fleet.hand_out(1)
    assert len([*(tmp_path / "run/events-arrow").iterdir()]) == 3


def test_the_limit_of_a_process_stands_for_a_full_disk(tmp_path):
    code = "import sys; print('.', flush=True); sys.stdin.read(1); open('x', 'w', 1).write('more\\n')"
    command = [sys.executable, "-c", code]
    process = subprocess.Popen(command, cwd=tmp_path, stdin=-1, stdout=-1, stderr=-1)
    assert process.stdout is not None
    process.stdout.read(1)
    Disk(tmp_path, mounted=False).fill(process.pid, 0)
    _, said = process.communicate(b"x")
    assert b"File too large" in said


@pytest.mark.skipif(not may_mount(), reason="nothing may be mounted here")
def test_a_mounted_disk_is_full_until_it_is_freed(tmp_path):
    with disk_at(tmp_path) as disk:
        if not disk.mounted:
            pytest.skip("nothing may be mounted here")
        disk.fill(0, 4096)
        assert shutil.disk_usage(tmp_path).free <= 4096
        with pytest.raises(OSError, match="No space left"):
            (tmp_path / "x").write_bytes(b"x" * 10_000)
        disk.free()
        (tmp_path / "x").write_bytes(b"x" * 10_000)


# Jobs without Spark: an epoch is a file, and one that is not whole is refused, by its name or without.
JOBS = """
import json, os, sys, time
from pathlib import Path

def tell(state, message=""):
    print(json.dumps({"kind": "tumble", "state": state, "message": message}), flush=True)

commits = Path(sys.argv[1], "tumble", "job", "spark", "commits")
commits.mkdir(parents=True, exist_ok=True)

def run():
    tell("running")
    done = {int(path.name): path for path in commits.iterdir() if path.name.isdecimal()}
    for path in done.values():
        if path.read_text() != "whole":
            return tell("failed", f'SS459: "{path}" is damaged' if sys.argv[2] == "clear" else "Traceback")
    for number in range(max(done, default=-1) + 1, 150):
        time.sleep(0.02)
        outside = Path(sys.argv[1]).parent / "next"  # where nothing cuts it off
        outside.write_text("whole")
        outside.rename(commits / str(number))
    tell("finished")

for line in sys.stdin:
    if "tumble" in line:
        run()
"""


@dataclass
class PlainFleet(Fleet):
    says: str = "clear"

    @property
    def command(self):
        return [sys.executable, "-c", JOBS, str(self.checkpoints), self.says]


def plain(folder, says="clear"):
    fleet = PlainFleet(("tumble",), folder / "events", folder / "run", says=says)
    fleet.prepare()
    return Siege(fleet, random.Random("2"))


def struck(folder, fault, says="clear"):
    siege = plain(folder, says)
    siege.run([fault] * 2)
    assert siege.records.states == {"tumble": "finished"}
    return siege.records.of("tumble", fault)


def test_a_start_that_names_the_cut_off_file_has_refused_it(tmp_path):
    outcome = struck(tmp_path, "truncate")
    assert outcome.tried == 2
    assert len(outcome.refused) == 2
    assert all(re.match(r'\d+: SS459: ".*/job/spark/commits/\d+" is damaged', text) for text in outcome.refused)
    assert not outcome.unclear


def test_a_start_that_does_not_is_unclear(tmp_path):
    outcome = struck(tmp_path, "truncate", says="unclear")
    assert not outcome.refused
    assert {text.split(": ", 1)[1] for text in outcome.unclear} == {"Traceback"}


def test_killed_jobs_are_started_again(tmp_path):
    outcome = struck(tmp_path, "driver")
    assert outcome.tried > 0
    assert not outcome.failed
    assert not outcome.unclear


@pytest.mark.parametrize(("fault", "said"), [("driver", "not tried"), ("none", "equal")])
def test_what_was_never_struck_is_not_tried_and_failures_before_all_strikes_need_no_strike(fault, said):
    assert verdict(fault, Struck(failed=["SS466: slow"]), Outcome(None)) == said


def test_a_job_that_fails_at_the_same_epoch_again_and_again_is_stuck(tmp_path):
    siege = plain(tmp_path)
    first = tmp_path / "run/checkpoints/tumble/job/spark/commits/0"
    first.parent.mkdir(parents=True)
    first.touch()
    siege.run(["driver"])
    actual = siege.records.of("tumble", "none")
    assert siege.records.states == {"tumble": "stuck"}
    assert len(actual.failed) == 4
    assert actual.unclear[0].startswith('does not recover: SS459: "')
    assert actual.tried == 0


def chosen(**options):
    return argparse.Namespace(rows=6_000, files=5, seed=1, **options)


def test_the_table_is_kept_while_it_grows(tmp_path, capsys):
    siege = plain(tmp_path)
    report = Report(tmp_path / "table.txt", chosen())
    siege.run(["truncate"], lambda number: report.on_strike(siege.records, ["truncate"], number))
    assert "strike 1 of 1: truncate, on 1 jobs in epochs" in capsys.readouterr().out
    assert "…" in (tmp_path / "table.txt").read_text()
    report.add(siege.records, ["truncate"], "tumble", Outcome("totals: 2 rows instead of 3"))
    text = (tmp_path / "table.txt").read_text()
    assert "DIFFERENT" in text
    assert "× truncate, refused: " in text
    report.add(siege.records, ["truncate"], "tumble", Outcome(None, stuck=True))
    assert "STUCK" in (tmp_path / "table.txt").read_text()
    assert not report.holds


def test_jobs_see_what_has_been_handed_out_and_end_with_the_last_of_it(tmp_path):
    write_events(tmp_path / "events", 600, 5, 1)
    fleet = Fleet(("tumble",), tmp_path / "events", tmp_path / "run")
    fleet.prepare()
    script = fleet.folder / "tumble" / "job.sql"
    fleet.hand_out(3 / 5)
    assert sorted(path.name for path in (fleet.folder / "events").iterdir()) == [f"000{n}.parquet" for n in range(3)]
    assert "monitor-interval" in script.read_text()
    fleet.hand_out(1)
    assert len([*(fleet.folder / "events").iterdir()]) == 5
    assert "monitor-interval" not in script.read_text()


def test_an_undisturbed_run_is_kept_for_later_runs_over_the_same_input(tmp_path):
    wanted = chosen(kinds=["tumble"])
    actual = tmp_path / "undisturbed/tumble/out/totals/sqlstream_batch=0/part-0.parquet"
    actual.parent.mkdir(parents=True)
    pq.write_table(ROWS, actual)
    (tmp_path / "local").mkdir()
    kept = {"input": {"rows": 6_000, "files": 5, "seed": 1}, "kinds": ["tumble", "hop"]}
    (tmp_path / "undisturbed.json").write_text(json.dumps(kept))
    assert expected_rows(wanted, tmp_path) == {"tumble": {"totals": ROWS}}
    assert not (tmp_path / "local").exists()
    wanted.seed = 2
    with pytest.raises(SystemExit, match="other input"):
        expected_rows(wanted, tmp_path)


def test_strikes_without_an_epoch_of_their_own_are_refused(capsys):
    with pytest.raises(SystemExit):
        main(["--files", "6", "--moments", "3", "--faults", "driver,disk,executor"])
    assert "6 strikes take more than 6" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("kinds", [("tumble",), ("cut_csv", "cut_json", "cut_avro", "read_arrow")])
def test_a_job_whose_driver_is_killed_commits_what_an_undisturbed_one_does(tmp_path, kinds):
    write_events(tmp_path / "events", 6_000, 5, 1)
    expected = undisturbed(kinds, tmp_path / "events", tmp_path / "undisturbed")
    fleet = Fleet(kinds, tmp_path / "events", tmp_path / "killed")
    report = Report(tmp_path / "table.txt", chosen())
    records = besieged(fleet, ["driver"], random.Random("seed"), expected, report)
    assert [records.of(kind, "driver").tried for kind in kinds] == [1] * len(kinds)
    assert fleet.starts == 3  # the last one lets it end
    assert report.holds
