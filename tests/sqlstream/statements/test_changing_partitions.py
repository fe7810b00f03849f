"""ALTER TABLE … ADD and DROP PARTITION: folders, and nothing but those that are meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream.errors import SqlStreamError
from sqlstream.results import Rows
from sqlstream.session import Session

DAY = "day = '2024-01-31'"


@pytest.fixture
def session(tmp_path: Path) -> Session:
    own = Session()
    own.sql(
        "CREATE TABLE t (v INT, day DATE, hour INT, place STRING) PARTITIONED BY (day, hour, place) "
        f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/t', 'format' = 'json'); "
        f"CREATE TABLE plain (v INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/p', 'format' = 'json'); "
        "CREATE TABLE far (v INT, p INT) PARTITIONED BY (p) "
        "WITH ('connector' = 'filesystem', 'path' = 's3a://b/t', 'format' = 'json')"
    )
    return own


def shown(session: Session) -> list[str]:
    listed = session.sql("SHOW PARTITIONS t")
    assert isinstance(listed, Rows)
    return [name for (name,) in listed.fetchall()]


def error(session: Session, change: str, table: str = "t") -> str:
    with pytest.raises(SqlStreamError) as caught:
        session.sql(f"ALTER TABLE {table} {change}")
    return str(caught.value).splitlines()[0]


def test_partitions_are_folders_that_are_made_and_removed(session: Session, tmp_path: Path) -> None:
    session.sql("ALTER TABLE t ADD PARTITION (day = '2024-01-31', hour = 7, place = 'a')")
    session.sql("ALTER TABLE t ADD PARTITION (place = 'b', HOUR = '08', day = DATE '2024-01-31') PARTITION "
                "(day = '2024-02-01', hour = -1, place = NULL)")  # fmt: skip
    assert shown(session) == [
        "day=2024-01-31/hour=7/place=a",
        "day=2024-01-31/hour=8/place=b",
        "day=2024-02-01/hour=-1/place=__HIVE_DEFAULT_PARTITION__",
    ]
    file = tmp_path / "t/day=2024-01-31/hour=8/place=b/x.json"
    file.write_text("{}")
    session.sql("ALTER TABLE t DROP PARTITION (day = '2024-01-31', hour = '8', place = 'b')")
    assert not file.parent.exists() and len(shown(session)) == 2
    session.sql(
        "ALTER TABLE t DROP IF EXISTS PARTITION (day = '2024-01-31', hour = 7, place = 'a'), "
        "PARTITION (day = '2024-01-31', hour = 9, place = 'a'), PARTITION (day = '2024-02-01', hour = -1, place = '')"
    )
    assert shown(session) == []


def test_folders_are_named_as_spark_names_them(session: Session, tmp_path: Path) -> None:
    session.sql("ALTER TABLE t ADD PARTITION (day = '2024-01-31', hour = 7, place = 'a}{%:ü b')")
    (made,) = (tmp_path / "t/day=2024-01-31/hour=7").iterdir()
    assert made.name == "place=a}%7B%25%3Aü b"
    (made.parent / "place=x%7Dy").mkdir()  # as an earlier version made it
    session.sql("ALTER TABLE t DROP PARTITION (day = '2024-01-31', hour = 7, place = 'x}y')")
    assert [*made.parent.iterdir()] == [made]


def test_values_stay_in_their_folder(session: Session, tmp_path: Path) -> None:
    session.sql("ALTER TABLE t ADD PARTITION (day = '2024-01-31', hour = 7, place = '../../../../x y=%')")
    assert shown(session) == ["day=2024-01-31/hour=7/place=..%2F..%2F..%2F..%2Fx y%3D%25"]
    session.sql("ALTER TABLE t DROP PARTITION (day = '2024-01-31', hour = 7, place = '../../../../x y=%')")
    assert shown(session) == [] and (tmp_path / "t").exists()


def test_links_are_not_followed(session: Session, tmp_path: Path) -> None:
    (tmp_path / "other/hour=7/place=a").mkdir(parents=True)
    (tmp_path / "t").mkdir()
    (tmp_path / "t/day=2024-01-31").symlink_to(tmp_path / "other")
    drop = "DROP PARTITION (day = '2024-01-31', hour = 7, place = 'a')"
    assert "leads out of the folder of the table" in error(session, drop)
    assert (tmp_path / "other/hour=7/place=a").exists()


def test_a_partition_is_there_once(session: Session) -> None:
    partition = "PARTITION (day = '2024-01-31', hour = 7, place = 'a')"
    assert error(session, f"DROP {partition}") == ('SS249: the table has no partition "day=2024-01-31/hour=7/place=a"')
    session.sql(f"ALTER TABLE t ADD {partition}")
    session.sql(f"ALTER TABLE t ADD IF NOT EXISTS {partition}")
    assert error(session, f"ADD {partition}") == (
        'SS249: the table has a partition "day=2024-01-31/hour=7/place=a" already'
    )
    session.sql(f"ALTER TABLE IF EXISTS nope ADD {partition}")


@pytest.mark.parametrize(
    ("table", "change", "message"),
    [
        ("plain", "ADD PARTITION (v = 1)", 'SS295: table "plain" has no partitions'),
        (
            "far",
            "ADD PARTITION (p = 1)",
            'SS358: partitions of table "far", which is not on this machine, are not known',
        ),
        ("t", "DROP PARTITION (day = '2024-01-31')", "SS295: the partition has no value of hour, place"),
        ("t", "ADD PARTITION (v = 1)", 'SS295: "v" is no partition column of table "t"'),
        ("t", f"ADD PARTITION ({DAY}, hour, place = 'a')", "SS295: the partition has no value of hour"),
        (
            "t",
            "ADD PARTITION (day = 'x', hour = 1, place = 'a')",
            'SS295: "x" is no value of "day", which is of type DATE',
        ),
        ("t", f"ADD PARTITION ({DAY}, hour = 1 + 1, place = 'a')", 'SS295: the value of "hour" is no constant'),
        (
            "t",
            f"ADD PARTITION ({DAY}, hour = 1, place = 'a') WITH ('a' = 'b')",
            "SS358: options of a partition are not kept",
        ),
    ],
)
def test_what_is_no_partition_is_refused(session: Session, table: str, change: str, message: str) -> None:
    assert error(session, change, table) == message
    assert [d.code for d in session.check(f"ALTER TABLE {table} {change}")] == [message[:5]]
