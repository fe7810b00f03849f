"""Delta tables with features, values and logs that others stumble over; without Spark."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.connectors import connector
from sqlstream.connectors.lakes.versions import LakeSettings, Position
from sqlstream.errors import ConnectorError
from sqlstream.planner.catalog import Table
from tests.sqlstream.connectors.delta_tables import added, commit, deletion_vector, field, metadata, protocol
from tests.sqlstream.connectors.lake_partitions import EARLY, OF_ANY_TYPE
from tests.sqlstream.connectors.lakes import batches_of, together
from tests.sqlstream.connectors.test_delta_sink import append, stored, table, upsert, versions, writer_of

deltalake: Any = pytest.importorskip("deltalake", reason="the package deltalake is not installed")

COLUMNS = (("id", "BIGINT"), ("v", "STRING"))
_FIELDS = [field("id", "long"), field("v", "string")]


def read(path: Path, *columns: tuple[str, str], **more: Any) -> list[tuple[Any, ...]]:
    return together(batches_of(LakeSettings("delta", "t", str(path), columns=columns or COLUMNS, **more)))


def rows(*pairs: tuple[Any, ...]) -> pa.Table:
    return pa.table([*zip(*pairs, strict=True)], ["id", "v"])


# --- features -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("feature", "message"),
    [
        ("notYetKnown", "Feature 'notYetKnown' is not supported"),
        ("catalogManaged", r"SS547: the commits of Delta table \"t\" are those of a catalog \(catalogManaged\)"),
    ],
)
def test_features_that_readers_must_know_are_refused_by_name(tmp_path: Path, feature: str, message: str) -> None:
    commit(tmp_path, 0, protocol(feature), metadata(_FIELDS), added(tmp_path, "a.parquet", rows((1, "a"))))
    with pytest.raises(ConnectorError, match=message):
        read(tmp_path)


@pytest.mark.parametrize(
    "feature",
    ["notYetKnown", "rowTracking", "clustering", "domainMetadata", "identityColumns", "icebergCompatV1",
     "inCommitTimestamp", "allowColumnDefaults", "materializePartitionColumns", "checkpointProtection"],
)  # fmt: skip
def test_features_that_writers_must_know_are_refused_before_a_job_starts(tmp_path: Path, feature: str) -> None:
    """Where they only are supported, too: then they bind writers already."""
    written = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": [feature]}}
    commit(tmp_path, 0, written, metadata(_FIELDS), added(tmp_path, "a.parquet", rows((1, "a"))))
    with pytest.raises(ConnectorError, match=f'SS547: the Delta table of "t" has the feature "{feature}"'):
        writer_of(table(tmp_path))


@pytest.mark.parametrize("feature", ["appendOnly", "invariants", "checkConstraints", "changeDataFeed",
                                     "generatedColumns", "timestampNtz", "deletionVectors"])  # fmt: skip
def test_features_that_are_not_used_do_not_matter(tmp_path: Path, feature: str) -> None:
    reader = feature in ("timestampNtz", "deletionVectors")
    own = {"minReaderVersion": 3 if reader else 1, "minWriterVersion": 7, "writerFeatures": [feature]}
    written = {"protocol": {**own, **({"readerFeatures": [feature]} if reader else {})}}
    commit(tmp_path, 0, written, metadata(_FIELDS), added(tmp_path, "a.parquet", rows((1, "a"))))
    append(writer_of(table(tmp_path)), 0, (2, "b"))
    upsert(writer_of(table(tmp_path, keys=["id"]), "u"), 0, (1, "A", "+U"))
    assert sorted(read(tmp_path)) == [(1, "A"), (2, "b")]


@pytest.mark.parametrize("client", ["spark", "deltalake"])
def test_another_client_is_refused(tmp_path: Path, client: str) -> None:
    """Instead of being a property of the table."""
    (wrong,) = connector("delta").validate(table(tmp_path, delta__client=client))
    assert wrong.render().startswith('SS547: connector "delta" of table "t" has no other client than deltalake')


def test_columns_may_be_widened(tmp_path: Path) -> None:
    fields = [field("id", "long"), field("x", "double"), field("p", "decimal(20,4)"), field("d", "timestamp_ntz")]
    before = pa.table(
        {
            "id": pa.array([1, 2], pa.int16()),
            "x": pa.array([1, 2], pa.int32()),
            "p": pa.array([Decimal("1.5"), None], pa.decimal128(5, 1)),
            "d": pa.array([date(1969, 12, 31), None]),
        }
    )
    features = protocol("typeWidening", "timestampNtz")
    commit(tmp_path, 0, features, metadata(fields), added(tmp_path, "a.parquet", before))
    columns = (("id", "BIGINT"), ("x", "DOUBLE"), ("p", "DECIMAL(20, 4)"), ("d", "TIMESTAMP_NTZ"))
    assert read(tmp_path, *columns) == [(1, 1.0, Decimal("1.5000"), datetime(1969, 12, 31)), (2, 2.0, None, None)]


# --- logs -----------------------------------------------------------------------------------------------------


def test_versions_whose_log_has_expired_are_named(tmp_path: Path) -> None:
    for number in range(5):
        deltalake.write_deltalake(tmp_path, rows((number, "a")), mode="append")
    deltalake.DeltaTable(tmp_path).create_checkpoint()
    for number in range(3):
        (tmp_path / f"_delta_log/{number:020}.json").unlink()
    assert len(read(tmp_path, as_of=4)) == 5
    for version in (1, 3):
        with pytest.raises(ConnectorError, match=f"SS549: .* does not have its version {version} any more"):
            read(tmp_path, as_of=version)
    with pytest.raises(ConnectorError, match=r"SS549: .* does not have its version 1 any more"):
        batches_of(
            LakeSettings("delta", "t", str(tmp_path), columns=COLUMNS, bounded=False), Position(1, 1, whole=True)
        )


@pytest.mark.parametrize("scheme", ["file:", "file://"])
def test_files_of_shallow_clones_are_elsewhere(tmp_path: Path, scheme: str) -> None:
    add = added(tmp_path / "other", "a b.parquet", rows((1, "a"), (2, "b")), deletionVector=deletion_vector([0]))
    add["add"]["path"] = f"{scheme}{tmp_path}/other/a%20b.parquet"
    commit(tmp_path / "t", 0, protocol("deletionVectors"), metadata(_FIELDS), add)
    for more in ({}, {"bounded": False, "start": "earliest"}):
        assert read(tmp_path / "t", **more) == [(2, "b")]


# --- partitions -----------------------------------------------------------------------------------------------


def of_decimals(path: Path, keys: tuple[str, ...] = ()) -> Table:
    return table(path, "id BIGINT; p DECIMAL(10, 2)", keys, partition_by="p", sink__compact_every="1")


def test_partitions_of_decimals_below_zero_are_not_spoilt(tmp_path: Path) -> None:
    """The library would write -1.50 as -1.-50, and nobody could open the table again."""
    to = writer_of(of_decimals(tmp_path))
    for number, value in enumerate(["1.50", "1.50"]):
        append(to, number, (number, Decimal(value)))
    kind: Any = connector("delta")
    kind.compact(of_decimals(tmp_path))
    assert len(deltalake.DeltaTable(tmp_path).file_uris()) == 1
    for number in (2, 3):
        append(to, number, (number, Decimal("-1.50")))
    before = versions(tmp_path)
    with pytest.raises(ConnectorError, match=r"SS547: .* deltalake spoils partitions of DECIMALs below zero"):
        kind.compact(of_decimals(tmp_path))
    to.compact()
    assert versions(tmp_path) == before
    with pytest.raises(
        ConnectorError, match=r'SS547: .* is partitioned by "p" of type DECIMAL, and its rows have a key'
    ):
        writer_of(of_decimals(tmp_path, ("id",)))
    there = sorted(read(tmp_path, ("id", "BIGINT"), ("p", "DECIMAL(10, 2)")))
    assert there == [(n, Decimal(v)) for n, v in enumerate(["1.50", "1.50", "-1.50", "-1.50"])]


@pytest.mark.parametrize(
    ("kind", "value", "text", "other"),
    [
        *OF_ANY_TYPE,
        ("TIMESTAMP_NTZ", EARLY, "1969-12-31T23:59:59.999999", datetime(2024, 1, 1)),
    ],
)
def test_partitions_of_any_type_are_overwritten(tmp_path: Path, kind: str, value: Any, text: str, other: Any) -> None:
    columns = f"id BIGINT; p {kind}"
    append(writer_of(table(tmp_path, columns, partition_by="p")), 0, (1, value), (2, other), (3, None))
    append(writer_of(table(tmp_path, columns, partition_by="p"), "o", {"p": text}), 0, (4, value))
    # The library does not read decimals below zero.
    assert sorted(row[0] for row in read(tmp_path, ("id", "BIGINT"), ("p", kind))) == [2, 3, 4]


def test_texts_of_partitions_may_be_longer_than_names_of_files(tmp_path: Path) -> None:
    values = ["x" * 300, "é" * 101, "short"]
    append(writer_of(table(tmp_path, partition_by="v")), 0, *enumerate(values))
    upsert(writer_of(table(tmp_path, keys=["id"], partition_by="v"), "u"), 0, (2, "other", "+U"))
    assert sorted(read(tmp_path)) == [(0, values[0]), (1, values[1]), (2, "other")] == stored(tmp_path)


# --- keys -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("BIGINT", [None, -(2**63), 2**63 - 1, -1, 0]),
        ("TINYINT", [None, -128, 127]),
        ("STRING", [None, "", "a'b", "a\\b", 'a"b', "\u2028x", "\0", "%_", "é" * 40, "\U0001f600" * 20, "a\nb"]),
        ("DECIMAL(38, 10)", [None, Decimal("0.0000001000"), Decimal("-1234567890123456789012345678.1234567891")]),
        ("DOUBLE", [None, -1.5, float("nan"), float("inf"), 0.1]),
        ("DATE", [None, date(1, 1, 1), date(1582, 10, 10), date(1969, 12, 31), date(9999, 12, 31)]),
        ("TIMESTAMP_NTZ", [None, datetime(1, 1, 1), EARLY, datetime(9999, 12, 31, 23, 59, 59, 999999)]),
        ("BINARY", [None, b"", b"\0\xff", b"a'b"]),
    ],
)
@pytest.mark.parametrize("partitioned", [False, True])
def test_no_odd_key_has_two_rows(tmp_path: Path, kind: str, keys: list[Any], partitioned: bool) -> None:
    if partitioned and kind in ("BINARY", "DECIMAL(38, 10)"):
        pytest.skip("refused")
    own = [key for key in keys if not (partitioned and key == "")]  # which is NULL
    more = {"partition_by": "k"} if partitioned else {}
    to = writer_of(table(tmp_path, f"k {kind}; v STRING", keys=["k"], **more))
    for number in range(2):
        upsert(to, number, *((key, f"n{number}", "+U") for key in own))
    for number, key in enumerate(own):
        upsert(to, 2 + number, (key, f"n{number}", "+U"))
    whole = sorted(repr((key, f"n{number}")) for number, key in enumerate(own))
    assert sorted(map(repr, stored(tmp_path))) == whole
    assert sorted(map(repr, read(tmp_path, ("k", kind), ("v", "STRING")))) == whole
