"""Jobs whose rows may collide on the PRIMARY KEY of their table keep them; what an earlier build wrote goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sqlstream
from sqlstream.errors import SqlStreamError, SqlStreamWarning
from sqlstream.jobs import Job

pytestmark = pytest.mark.spark


def run(spark: Any, folder: Path, setting: str | None) -> list[tuple[str, int]]:
    """Runs the job, and gives the rows of its table."""
    script = f"""
    SET 'execution.checkpointing.dir' = '{folder}/checkpoints'; SET 'execution.end-of-input' = 'pause';
    SET 'execution.runtime-mode' = 'streaming';
    CREATE TABLE users (id INT, name STRING, kind STRING) WITH ('connector' = 'filesystem', 'format' = 'json',
        'path' = '{folder}/in', 'changelog-mode' = 'I,UB,UA,D', 'source.kind-column' = 'kind');
    CREATE TABLE by_name (name STRING, id INT, PRIMARY KEY (name) NOT ENFORCED) WITH ('connector' = 'filesystem',
        'format' = 'parquet', 'path' = '{folder}/out');
    INSERT INTO by_name SELECT name, id FROM users"""
    with sqlstream.connect(spark) as session:
        if setting is not None:
            session.sql(f"SET 'table.exec.sink.upsert-materialize' = '{setting}'")
        job = session.sql(script)
        assert isinstance(job, Job)
        job.wait()
        session.sql("SET 'execution.runtime-mode' = 'batch'")
        rows: Any = session.sql("SELECT name, id FROM by_name")
        return sorted(map(tuple, rows.fetchall()))


def put(folder: Path, number: int, *lines: str) -> None:
    (folder / "in").mkdir(exist_ok=True, parents=True)
    (folder / "in" / f"{number}.json").write_text("".join(f"{line}\n" for line in lines))


FIRST = ('{"id": 1, "name": "a", "kind": "+I"}', '{"id": 2, "name": "a", "kind": "+I"}')
GONE = '{"id": 2, "name": "a", "kind": "-D"}'


def test_the_row_before_is_there_again_unless_the_checkpoint_does_not_keep_it(spark: Any, tmp_path: Path) -> None:
    kept, former = tmp_path / "kept", tmp_path / "former"
    for folder, setting in ((kept, None), (former, "none")):
        put(folder, 1, *FIRST)
        assert run(spark, folder, setting) == [("a", 2)]
        put(folder, 2, GONE)
    assert run(spark, kept, None) == [("a", 1)]
    with pytest.warns(SqlStreamWarning, match=r'SS667: the state at ".*" does not keep rows that collide'):
        assert run(spark, former, None) == []
    with pytest.raises(SqlStreamError, match=r"(?s)SS421: .*It holds nothing of .*start in a new directory"):
        run(spark, former, "auto")
