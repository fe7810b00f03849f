"""Sessions and connections that several threads use at once, from the first import of PySpark on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_EACH_IN_A_THREAD = r"""
import threading, traceback
from datetime import time
import sqlstream
from sqlstream import dbapi

TABLE = '''CREATE TABLE t (a INT, at TIME, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
    WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{path}')'''
STREAM = '''SELECT at, COUNT(*) FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)
    GROUP BY window_start, window_end, at'''
barrier, wrong = threading.Barrier(8), []

def by_session(number):
    barrier.wait()
    with sqlstream.connect() as session:
        session.sql(f"SET 'table.local-time-zone' = 'UTC+{number}'")
        session.sql(TABLE)
        assert session.sql(STREAM).fetchall() == [(time(7, 8, 9), 1)], number
        assert session.sql("SELECT a, at FROM t").fetchall() == [(1, time(7, 8, 9))], number
        zones = session.dataframe("SELECT CAST(TIMESTAMP_LTZ '1970-01-01 00:00:00Z' AS STRING)").collect()
        assert zones[0][0].startswith(f"1970-01-01 0{number}:00"), (number, zones)

def by_connection(number):
    barrier.wait()
    with dbapi.connect(settings={'execution.runtime-mode': ('batch', 'streaming')[number % 2]}) as connection:
        cursor = connection.cursor()
        cursor.execute(TABLE)
        cursor.execute("SELECT at FROM t")
        assert cursor.fetchall() == [(time(7, 8, 9),)], number

def run(number):
    try:
        (by_session if number < 4 else by_connection)(number)
    except BaseException:
        barrier.abort()
        wrong.append(traceback.format_exc())

threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(*wrong, sep="\n")
raise SystemExit(bool(wrong))
"""


@pytest.mark.spark
def test_eight_threads_start_spark_and_run_their_first_queries_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "rows.json").write_text('{"a": 1, "at": "07:08:09", "ts": "2024-01-01 00:00:00"}\n')
    script = tmp_path / "threads.py"
    script.write_text(_EACH_IN_A_THREAD.replace("{path}", str(folder)))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=170)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


@pytest.mark.spark
@pytest.mark.long  # the threads above read them in a process of their own
def test_times_of_day_are_read_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("1,07:08:09\n")
    script = tmp_path / "times.sql"
    script.write_text(f"""CREATE TABLE t (a INT, at TIME) WITH ('connector' = 'filesystem', 'format' = 'csv',
        'path' = '{tmp_path}/rows.csv');
        SET 'execution.runtime-mode' = 'streaming'; SELECT at FROM t;""")
    command = [sys.executable, "-m", "sqlstream", "run", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, "07:08:09" in done.stdout) == (0, True), done.stdout + done.stderr[-2000:]
