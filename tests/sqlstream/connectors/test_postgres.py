"""Tables of PostgreSQL: what is found out when a job starts, and writing exactly once."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlstream.connectors import Environment, Source, connector, lookup_connector, sink_connector, validate
from sqlstream.connectors.on_spark.postgres import PostgresWriter, Staging
from sqlstream.errors import SqlStreamError
from sqlstream.planner.catalog import APPEND_ONLY, UPSERT, Column, Table
from sqlstream.types import parse_type
from sqlstream.udfs.lookup.source import Comparison, LookupSource, Request
from tests.postgres_server import PASSWORD, PostgresServer
from tests.sqlstream.connectors.jobs_of_tables import named

HERE: Any = None  # in place of a Spark session, which nobody asks


@pytest.fixture
def server(postgres_server: PostgresServer) -> Iterator[PostgresServer]:
    yield postgres_server
    postgres_server.execute("DROP SCHEMA public CASCADE", "CREATE SCHEMA public")


@pytest.fixture
def declared(server: PostgresServer):
    """Makes a table called t: ``declared("a INT; b STRING", key=("a",), table_name="t")``."""

    def make(columns: str, key: tuple[str, ...] = (), name: str = "postgres", **options: str) -> Table:
        split = [text.strip().split(" ", 1) for text in columns.split(";")]
        given = {**server.options, "table-name": "t"}
        if name == "jdbc":
            given["url"] = f"jdbc:{given['url']}"
        pairs = {**given, **named(options)}
        physical = tuple(Column(n, parse_type(t), nullable=n not in key) for n, t in split)
        return Table("t", physical, name, tuple(pairs.items()), primary_key=key)

    return make


def here(run: str = "run 1", job: str = "job") -> Environment:
    return Environment(HERE, Path(), job, run=run)


def writer_of(table: Table, run: str = "run 1") -> PostgresWriter:
    write_batches = sink_connector(table.connector).write_batches
    made = write_batches(here(run), table)
    assert isinstance(made, PostgresWriter)
    return made


def lookup_of(table: Table, request: Request) -> LookupSource:
    make = lookup_connector(table.connector).lookup
    return make(here(), table, request)


def error_of(action, *arguments) -> str:
    with pytest.raises(SqlStreamError) as caught:
        action(*arguments)
    assert PASSWORD not in str(caught.value)
    return str(caught.value)


# --- what a statement says ------------------------------------------------------------------------------------


def test_options_that_do_not_go_together_are_refused(declared) -> None:
    def messages(table: Table) -> list[str]:
        assert all(d.hint for d in validate(table, {}))
        return [f"{d.code}: {d.message}" for d in validate(table, {})]

    assert messages(declared("a INT")) == []
    assert messages(declared("a INT", name="jdbc")) == []
    assert messages(declared("a INT", host="h")) == ['SS504: option "host" does not go with "url", which names it']
    assert messages(declared("a INT", url="mysql://h/d")) == ['SS504: option "url" is no address of PostgreSQL']
    assert messages(declared("a INT", name="jdbc", url="jdbc:mysql://h/d")) == [
        'SS504: option "url" of connector "jdbc" is no address of PostgreSQL, the only database that it knows'
    ]
    (unknown,) = messages(declared("a INT", name="jdbc", url="jdbc:postgresql://h/d?socketTimeout=3"))
    assert 'its property "socketTimeout" is not known' in unknown
    assert messages(declared("a INT", table_name='"x')) == [
        'SS504: value ""x" of option "table-name" is not a table name'
    ]
    (wrong,) = messages(declared("a MAP<STRING, INT>"))
    assert wrong == 'SS505: connector "postgres" has no values of type MAP<STRING, INT> for column "a"'


def test_options_of_flink_without_effect_say_what_to_write(declared) -> None:
    table = declared("a INT", name="jdbc", lookup__partial_cache__expire_after_access="1 h", sink__parallelism="3")
    actual = validate(table, {})
    assert [(d.code, d.hint) for d in actual] == [
        ("SS350", "'lookup.partial-cache.expire-after-write' says after which time answers are forgotten."),
        ("SS350", "Rows are copied by the tasks that make them."),
    ]


@pytest.mark.parametrize(
    ("options", "codes"),
    [
        ({"lookup__cache": "PARTIAL", "lookup__partial_cache__max_rows": "5"}, []),
        ({"lookup__cache": "NONE"}, []),
        ({"lookup__cache__max_rows": "5", "lookup__cache__ttl": "1 h", "lookup__max_retries": "3"}, []),
        ({"lookup__cache": "FULL"}, ["SS350"]),
        ({"lookup__cache": "PARTIAL"}, ["SS503"]),
        ({"lookup__partial_cache__expire_after_write": "1 h"}, ["SS503"]),
        ({"lookup__cache__ttl": "1 h"}, ["SS503"]),
        ({"lookup__cache": "PARTIAL", "lookup__partial_cache__max_rows": "0"}, ["SS504"]),
    ],
)
def test_a_cache_has_a_bound(declared, options: dict[str, str], codes: list[str]) -> None:
    assert [d.code for d in validate(declared("a INT", name="jdbc", **options), {})] == codes


def test_only_comparisons_that_spark_makes_alike_are_checked_in_the_database(declared) -> None:
    table = declared("a BIGINT; s STRING; d DOUBLE; at TIMESTAMP; b BOOLEAN")

    def checks(*comparison: object) -> bool:
        return lookup_connector("postgres").filters(table, Comparison(*comparison))  # type: ignore[arg-type]

    assert checks("a", "=", 1) and checks("s", "<", "x") and checks("d", ">", 0.5) and checks("b", "=", True)
    assert checks("at", "IS NULL") and checks("a", "IN", (1, 2))
    assert not checks("a", "=", True) and not checks("a", "=", 2**63) and not checks("a", "IN", (1, 2.5))
    assert not checks("s", "=", "a\0") and not checks("d", "=", float("nan")) and not checks("at", "=", "2024-01-01")


# --- what is found out at the start of a job --------------------------------------------------------------------


def test_a_lookup_finds_columns_but_for_case_and_answers(server, declared, monkeypatch) -> None:
    server.execute('CREATE TABLE t (id UUID, "Name" TEXT, n INT)', "INSERT INTO t VALUES (gen_random_uuid(), 'x', 3)")
    ((uid,),) = server.rows("SELECT id::text FROM t")
    monkeypatch.setenv("PG_PASSWORD", PASSWORD)
    string, bigint = parse_type("STRING"), parse_type("BIGINT")
    request = Request((("id", string),), (("name", string), ("n", bigint)), (Comparison("n", ">", 2),))
    for name in ("postgres", "jdbc"):
        table = declared("id STRING; name STRING; n BIGINT", name=name, password="${PG_PASSWORD}")
        actual = lookup_of(table, request)

        async def ask(source=actual):
            client = await source.open()
            try:
                return await client.ask([(uid,), ("no uuid",)])
            finally:
                await client.close()

        assert asyncio.run(ask()) == [[("x", 3)], []]


def test_columns_that_are_missing_or_of_another_type_are_all_named(server, declared) -> None:
    server.execute("CREATE TABLE t (id INT, price NUMERIC(10, 4), tags TEXT[], at DATE)")
    table = declared("id SMALLINT; price DECIMAL(10, 2); tags ARRAY<INT>; at DATE; nam STRING")
    request = Request((), tuple((c.name, c.type) for c in table.columns))
    text = error_of(lookup_of, table, request)
    assert 'SS564: column "id" of table "t" is SMALLINT, but integer in the database' in text
    assert 'SS564: column "price" of table "t" is DECIMAL(10, 2), but numeric(10,4) in the database' in text
    assert 'SS564: column "tags" of table "t" is ARRAY<INT>, but text[] in the database' in text
    assert 'SS564: column "nam" of table "t" does not exist in the database' in text
    assert '"at"' not in text


def test_a_server_that_does_not_let_us_in_is_told_with_what_to_do(server, declared, monkeypatch) -> None:
    request = Request((), ())
    url = f"postgresql://127.0.0.1:{server.port}/"
    for options, code, words in (
        ({"password": "wrong"}, "SS562", ("password authentication failed", 'Correct the options "username"')),
        ({"url": f"{url}nope"}, "SS562", ('database "nope" does not exist', 'Correct the database in "url"')),
        ({"url": "postgresql://127.0.0.1:1/x"}, "SS562", ("refused", "Is the server running")),
        ({"password": "${NO_SUCH}"}, "SS560", ('"NO_SUCH" of option "password" is not set', "export NO_SUCH=")),
        ({"url": f"{url}postgres?nonsense={PASSWORD}"}, "SS504", ("is no address of PostgreSQL",)),
        ({"table_name": "public.tt"}, "SS563", ('table "public.tt" of table "t" does not exist', "Tables there")),
    ):
        text = error_of(lookup_of, declared("a INT", **options), request)
        assert text.startswith(code) and all(word in text for word in words), text
    monkeypatch.setattr("sqlstream.connectors.postgres.server.find_spec", lambda _: None)
    text = error_of(lookup_of, declared("a INT"), request)
    assert "psycopg" in text and "pip install 'sqlstream[postgres]'" in text


def test_a_sink_wants_its_table_and_says_how_to_create_it(server, declared) -> None:
    table = declared("id BIGINT; price DECIMAL(10, 2); tags ARRAY<STRING>; at TIMESTAMP", ("id",))
    text = error_of(writer_of, table)
    create = text.partition("to WITH: ")[2]
    assert text.startswith('SS563: table "t" of table "t" does not exist in the database')
    assert create == (
        'CREATE TABLE "t" ("id" bigint NOT NULL, "price" numeric(10, 2), "tags" text[], "at" timestamptz, '
        'PRIMARY KEY ("id"))'
    )
    server.execute(create)
    assert writer_of(table).keys == ("id",)
    writer_of(declared("id INT", table_name="made", create_table="true"))
    assert server.rows("SELECT * FROM made") == []


def test_a_sink_with_a_key_wants_a_unique_index(server, declared) -> None:
    server.execute("CREATE TABLE t (a INT, b INT)", "CREATE UNIQUE INDEX ON t (a, b)")
    text = error_of(writer_of, declared("a INT; b INT", ("a",)))
    assert text.startswith('SS565: table "t" has no unique index on its PRIMARY KEY (a)')
    assert 'CREATE UNIQUE INDEX ON "t" ("a");' in text
    assert writer_of(declared("a INT; b INT", ("b", "a"))).keys == ("b", "a")


def test_updates_need_a_key(declared) -> None:
    takes_changes = sink_connector("postgres").takes_changes
    assert takes_changes(declared("a INT", ("a",))) == UPSERT
    assert takes_changes(declared("a INT")) == APPEND_ONLY
    assert not isinstance(connector("postgres"), Source)


# --- writing, without Spark -------------------------------------------------------------------------------------


class Rows:
    """A micro-batch: its partitions run when it is collected, the first of them twice, as a failed task does."""

    def __init__(self, *partitions: pa.RecordBatch, fail: bool = False) -> None:
        self.partitions, self.fail = partitions, fail
        self.runs = 0

    def mapInArrow(self, staging: Staging, schema: str) -> Rows:  # noqa: N802
        self.staging = staging
        return self

    def collect(self) -> list[tuple[str]]:
        self.runs += 1
        if self.partitions:
            self.staging.stage(iter(self.partitions[:1]), 0)
        parts = [self.staging.stage(iter([rows]), number) for number, rows in enumerate(self.partitions)]
        if self.fail:
            raise RuntimeError("the driver dies here")
        return [(part,) for part in parts if part is not None]

    @property
    def write(self) -> Rows:
        return self

    def format(self, _: str) -> Rows:
        return self

    def mode(self, _: str) -> Rows:
        return self

    def save(self) -> None:
        self.runs += 1


def rows(*values: tuple[Any, ...]) -> pa.RecordBatch:
    """(a, b) or (a, b, kind)."""
    columns = list(zip(*values, strict=True))
    names = ["a", "b", "__row_kind"][: len(columns)]
    types = [pa.int32(), pa.string(), pa.string()]
    return pa.record_batch([pa.array(c, t) for c, t in zip(columns, types, strict=False)], names=names)


@pytest.fixture
def keyed(server, declared) -> Table:
    server.execute("CREATE TABLE t (a INT PRIMARY KEY, b TEXT)")
    table: Table = declared("a INT; b STRING", ("a",))
    return table


def everything(server: PostgresServer) -> list[tuple[object, ...]]:
    return server.rows("SELECT * FROM t ORDER BY 1, 2")


def staging_tables(server: PostgresServer) -> list[tuple[object, ...]]:
    return server.rows("SELECT relname FROM pg_class WHERE relname LIKE 'sqlstream_staging%'")


def test_the_last_change_of_a_key_wins(server, keyed) -> None:
    write: Any = writer_of(keyed)
    write(Rows(rows((1, "x", "+I"), (2, "y", "+I"), (3, "z", "+I"))), 0)
    write(
        Rows(
            rows((1, "x", "-U"), (1, "x2", "+U"), (2, "y", "-D"), (4, "n", "+I"), (4, "n", "-D")),
            rows((3, "z", "-D"), (3, "again", "+I"), (1, "x2", "-U"), (1, "x3", "+U")),
        ),
        1,
    )
    assert everything(server) == [(1, "x3"), (3, "again")]
    assert staging_tables(server) == []


CHANGES = st.lists(st.tuples(st.integers(0, 3), st.sampled_from("xyz"), st.sampled_from(["+I", "-U", "+U", "-D"])))


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(st.tuples(st.lists(CHANGES, max_size=3), st.booleans()), max_size=4))
def test_a_table_is_what_its_changes_make_of_it(server, keyed, batches) -> None:
    """The plain oracle: a dict that takes the changes one by one. Some batches run twice."""
    server.execute("TRUNCATE t")
    write: Any = writer_of(keyed, run=uuid.uuid4().hex)
    expected: dict[int, str] = {}
    for number, (partitions, twice) in enumerate(batches):
        for _ in range(1 + twice):
            write(Rows(*(rows(*changes) for changes in partitions if changes)), number)
        for key, value, kind in (change for changes in partitions for change in changes):
            if kind in ("-D", "-U"):
                expected.pop(key, None)
            else:
                expected[key] = value
    assert everything(server) == sorted(expected.items())


def test_without_a_key_rows_are_added(server, declared) -> None:
    server.execute("CREATE TABLE t (a INT, b TEXT)")
    write: Any = writer_of(declared("a INT; b STRING"))
    for number in (0, 1):
        write(Rows(rows((1, "x"), (1, "x")), rows((None, None))), number)
    assert everything(server) == [(1, "x")] * 4 + [(None, None)] * 2


def test_a_batch_that_runs_again_changes_nothing_but_is_computed(server, declared) -> None:
    server.execute("CREATE TABLE t (a INT, b TEXT)")
    table = declared("a INT; b STRING")
    for _ in range(2):
        write: Any = writer_of(table)  # a job that starts again
        again = Rows(rows((1, "x")))
        write(again, 0)
        assert again.runs == 1
    write(Rows(rows((2, "y"))), 1)
    write(Rows(rows((1, "x"))), 0)
    assert everything(server) == [(1, "x"), (2, "y")]
    assert server.rows("SELECT job, run, target, epoch FROM sqlstream_epochs") == [("job", "run 1", '"t"', 1)]


def test_a_crash_between_staging_and_commit_leaves_nothing_behind(server, declared) -> None:
    server.execute("CREATE TABLE t (a INT, b TEXT)")
    write: Any = writer_of(declared("a INT; b STRING"))
    with pytest.raises(RuntimeError, match="dies"):
        write(Rows(rows((1, "x")), fail=True), 0)
    assert everything(server) == []
    write(Rows(rows((1, "x"))), 0)
    assert everything(server) == [(1, "x")]


def test_staging_that_a_killed_driver_left_is_made_anew(server, declared) -> None:
    server.execute("CREATE TABLE t (a INT, b TEXT)")
    write = writer_of(declared("a INT; b STRING"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PostgresWriter, "commit", lambda *_: server.stop())  # the server goes, and with it all
        with pytest.raises(SqlStreamError):
            write(Rows(rows((1, "x"))), 0)  # type: ignore[arg-type]
    server.start()
    assert len(staging_tables(server)) == 1
    write(Rows(rows((2, "y"))), 0)  # type: ignore[arg-type]
    assert everything(server) == [(2, "y")]
    assert staging_tables(server) == []


def test_a_failing_row_takes_its_batch_back(server, declared) -> None:
    server.execute("CREATE TABLE t (a INT CHECK (a < 10), b TEXT)")
    write: Any = writer_of(declared("a INT; b STRING"))
    text = error_of(write, Rows(rows((1, "x"), (10, "y"))), 0)
    assert text.startswith('SS567: table "t": PostgreSQL says: new row for relation "t" violates check constraint')
    assert everything(server) == [] and staging_tables(server) == []
    write(Rows(rows((2, "z"))), 0)
    assert everything(server) == [(2, "z")]


def test_a_value_that_does_not_fit_is_told_with_its_column(server, declared) -> None:
    server.execute("CREATE TABLE t (a SMALLINT, b UUID)")
    write: Any = writer_of(declared("a INT; b STRING"))
    text = error_of(write, Rows(rows((1, "no uuid"))), 0)
    assert 'SS567: table "t": PostgreSQL says: invalid input syntax for type uuid: "no uuid"' in text
    assert 'line 1, column b: "no uuid"' in text
    assert 'value "70000" is out of range for type smallint' in error_of(write, Rows(rows((70000, None))), 0)
    assert "NUL" in error_of(write, Rows(rows((1, "a\0"))), 0)
    assert everything(server) == [] and staging_tables(server) == []


def test_another_checkpoint_counts_its_batches_anew(server, declared) -> None:
    server.execute("CREATE TABLE t (a INT, b TEXT)")
    table = declared("a INT; b STRING")
    for run in ("run 1", "run 2"):
        write: Any = writer_of(table, run)
        write(Rows(rows((1, run))), 0)
    assert everything(server) == [(1, "run 1"), (1, "run 2")]


def test_a_batch_without_rows_is_no_trouble(server, keyed) -> None:
    write: Any = writer_of(keyed)
    write(Rows(), 0)
    write(Rows(rows((1, "x")), rows((1, "x", "-U"))[0:0]), 1)
    assert everything(server) == [(1, "x")]
