"""Queries and jobs over Delta tables: the default mode, streams, changes, lookups and sinks."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from sqlstream.errors import SqlStreamError
from sqlstream.session import Session
from tests.sqlstream.connectors.jobs_of_tables import declare, rows, run, started, until
from tests.sqlstream.connectors.test_delta_log import merge, write
from tests.sqlstream.connectors.test_delta_sink import stored, versions

deltalake = pytest.importorskip("deltalake", reason="the package deltalake is not installed")
pytestmark = pytest.mark.spark


def create(session: Session, path: Path, columns: str = "id BIGINT, v STRING", name: str = "t", **options: str) -> None:
    declare(session, name, columns, {"connector": "delta", "path": str(path)}, **options)


@pytest.mark.long
def test_finished_data_is_read_in_every_mode(session: Session, tmp_path: Path) -> None:
    table = pa.table({"id": pa.array(range(100), pa.int64()), "v": [str(n % 3) for n in range(100)]})
    deltalake.write_deltalake(tmp_path / "t", table, partition_by=["v"])
    deltalake.DeltaTable(tmp_path / "t").delete("id >= 90")
    create(session, tmp_path / "t")
    create(session, tmp_path / "t", name="before", version_as_of="0")
    query = "SELECT v, COUNT(*) AS n FROM {} GROUP BY v"
    assert rows(session, query.format("t")) == [("0", 30), ("1", 30), ("2", 30)]
    assert rows(session, query.format("before")) == [("0", 34), ("1", 33), ("2", 33)]
    assert rows(session, "SELECT COUNT(*) FROM t") == [(90,)]
    assert rows(session, "SELECT COUNT(*) FROM t VERSION AS OF 0 AS x") == [(100,)]
    both = "SELECT COUNT(*) FROM t VERSION AS OF 0 AS x JOIN t AS y ON x.id = y.id"
    assert rows(session, both) == [(90,)]
    assert rows(session, "SELECT id FROM t WHERE id < 3") == [(0,), (1,), (2,)]
    session.sql("SET 'execution.runtime-mode' = 'streaming'")
    assert {("0", 30), ("1", 30), ("2", 30)} <= {(v, n) for _, v, n in rows(session, query.format("t"))}
    past = "t FOR SYSTEM_TIME AS OF TIMESTAMP '2000-01-01 00:00:00'"
    with pytest.raises(SqlStreamError, match=r"has no version of 2000-01-01T00:00:00\+00:00"):
        rows(session, query.format(past))


def test_a_job_goes_on_with_new_versions_behind_a_restart(session: Session, tmp_path: Path) -> None:
    """An exchange reads the files, and so does a query without one."""
    source = tmp_path / "t"
    write(source, (1, "a"), (2, "b"))
    create(session, source, source__monitor_interval="1 s")
    create(session, tmp_path / "sums", "v STRING NOT NULL, n BIGINT, PRIMARY KEY (v) NOT ENFORCED", "sums")
    create(session, tmp_path / "copy", name="copy")
    session.sql(f"SET 'execution.checkpointing.dir' = '{tmp_path / 'checkpoints'}'")
    insert = (
        "EXECUTE STATEMENT SET BEGIN INSERT INTO sums SELECT v, COUNT(*) FROM t GROUP BY v; "
        "INSERT INTO copy SELECT id, v FROM t; END"
    )
    expected = [(1, "a"), (2, "b")]
    for number in range(2):
        job = started(session, insert)
        write(source, (10 + number, "a"))
        expected.append((10 + number, "a"))
        until(lambda: _is_there(tmp_path / "copy") and stored(tmp_path / "copy") == sorted(expected, key=repr))
        sums = [("a", 2 + number), ("b", 1)]
        until(lambda sums=sums: stored(tmp_path / "sums") == sums)
        job.stop()
        if number == 0:
            shutil.copytree(tmp_path / "checkpoints", tmp_path / "older")
    shutil.rmtree(tmp_path / "checkpoints")
    (tmp_path / "older").rename(tmp_path / "checkpoints")
    with pytest.raises(SqlStreamError, match=r'SS543: Delta table "(sums|copy)" has micro-batch'):
        session.sql(insert)


def _is_there(path: Path) -> bool:
    return bool(deltalake.DeltaTable.is_deltatable(str(path)))


def test_changes_lead_to_the_same_rows(session: Session, tmp_path: Path) -> None:
    source = tmp_path / "t"
    write(source, *((n, "x") for n in range(6)), configuration={"delta.enableChangeDataFeed": "true"})
    merge(source, (1, "y"), (7, "y"))
    deltalake.DeltaTable(source).delete("id = 2")
    create(
        session, source, source__monitor_interval="1 s", changelog_mode="I,UB,UA,D", scan__startup__mode="earliest"
    )  # fmt: skip
    create(session, tmp_path / "sums", "v STRING NOT NULL, n BIGINT, PRIMARY KEY (v) NOT ENFORCED", "sums")
    job = started(session, "INSERT INTO sums SELECT v, COUNT(*) FROM t GROUP BY v")
    until(lambda: _is_there(tmp_path / "sums") and stored(tmp_path / "sums") == [("x", 4), ("y", 2)])
    merge(source, (1, "x"))
    until(lambda: stored(tmp_path / "sums") == [("x", 5), ("y", 1)])
    job.stop()


@pytest.mark.long
def test_lookups_see_new_versions(session: Session, tmp_path: Path) -> None:
    write(tmp_path / "names", (1, "a"), (2, "b"))
    create(session, tmp_path / "names", name="names", lookup__full_cache__periodic_reload__interval="100 ms")
    write(tmp_path / "orders", (1, "o1"), (2, "o2"), (3, "o3"))
    create(session, tmp_path / "orders", "id BIGINT, v STRING, pt AS PROCTIME()", "orders")
    query = "SELECT o.v, n.v FROM orders AS o LEFT JOIN names FOR SYSTEM_TIME AS OF o.pt AS n ON n.id = o.id"
    assert rows(session, query) == [("o1", "a"), ("o2", "b"), ("o3", None)]
    write(tmp_path / "names", (3, "c"))
    assert rows(session, query) == [("o1", "a"), ("o2", "b"), ("o3", "c")]


def test_rows_are_written_by_key_and_overwritten(session: Session, tmp_path: Path) -> None:
    create(session, tmp_path / "t", "id BIGINT NOT NULL, v STRING, PRIMARY KEY (id) NOT ENFORCED")
    run(session, "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (1, 'c')")
    assert stored(tmp_path / "t") == [(1, "c"), (2, "b")]
    run(session, "INSERT OVERWRITE t VALUES (3, 'd')")
    assert rows(session, "SELECT * FROM t") == [(3, "d")]
    assert versions(tmp_path / "t") == 2, "rows are removed in the version that adds others"
    run(session, "INSERT OVERWRITE t SELECT id + 1, v FROM t WHERE FALSE")
    assert stored(tmp_path / "t") == []
    run(session, "INSERT INTO t VALUES (1, 'a')")
    session.sql("TRUNCATE TABLE t")
    assert stored(tmp_path / "t") == []


@pytest.mark.long
def test_partitions_are_overwritten(session: Session, tmp_path: Path) -> None:
    session.sql(
        "CREATE TABLE t (id BIGINT, day DATE, p STRING) PARTITIONED BY (day, p) "
        f"WITH ('connector' = 'delta', 'path' = '{tmp_path}/t')"
    )
    run(session, "INSERT INTO t VALUES (1, DATE '2024-01-31', 'a'), (2, DATE '2024-01-31', 'b'), (3, NULL, 'a')")
    run(session, "INSERT OVERWRITE t PARTITION (day = DATE '2024-01-31', p = 'a') SELECT id + 10 FROM t WHERE id = 1")
    assert rows(session, "SELECT id, p FROM t") == [(11, "a"), (2, "b"), (3, "a")]
    run(session, "INSERT OVERWRITE t PARTITION (p = 'a') SELECT id, day FROM t WHERE id = 2")
    assert rows(session, "SELECT id, p FROM t") == [(2, "a"), (2, "b")]


def test_what_is_wrong_is_said_before_a_job_starts(session: Session, tmp_path: Path) -> None:
    create(session, tmp_path / "none", name="missing")
    with pytest.raises(SqlStreamError, match='the path of table "missing" has no Delta table'):
        rows(session, "SELECT * FROM missing")
    write(tmp_path / "t", (1, "a"))
    create(session, tmp_path / "t", "id BIGINT, vv STRING", "wrong")
    with pytest.raises(SqlStreamError, match='column "vv" of table "wrong" does not exist in the Delta table'):
        rows(session, "SELECT vv FROM wrong")
    with pytest.raises(SqlStreamError, match=r'option "version-as-of" does not go with "source\.monitor-interval"'):
        create(session, tmp_path / "t", name="both", version_as_of="0", source__monitor_interval="1 s")
    with pytest.raises(SqlStreamError, match="belong together"):
        create(session, tmp_path / "t", name="at", scan__startup__mode="version", source__monitor_interval="1 s")
    with pytest.raises(SqlStreamError, match=r'option "scan\.startup\.mode" needs "source\.monitor-interval"'):
        create(session, tmp_path / "t", name="start", scan__startup__mode="latest")
