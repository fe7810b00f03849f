"""What DuckDB computes from the same files: the result that a query's stream has to end with.

The queries are Flink's text. DuckDB runs them after a few replacements: window functions become subqueries that compute
the bounds of the windows by arithmetic, and Flink's functions become macros. It has no MATCH_RECOGNIZE.
"""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pyarrow as pa

from examples.nexmark.queries import QUERIES

CHECKED = {
    "q6": "SELECT seller, COUNT(*) AS n FROM ({query}) AS t GROUP BY seller",
    "q9": "SELECT id, price, bidTime FROM ({query}) AS t",
    "q12": "SELECT bidder, SUM(bid_count) AS n FROM ({query}) AS t GROUP BY bidder",
    "q18": "SELECT auction, bidder, dateTime FROM ({query}) AS t",
    "q19": "SELECT auction, price, rank_number FROM ({query}) AS t",
}
"""What is compared where the rest of a row is not determined: rows are equal in all that the query orders by (q6, q9,
q18, q19), or the result depends on the clock (q12)."""

MATCHING = ("cep0", "cep1", "cep2", "cep3")
"""Queries with MATCH_RECOGNIZE are compared with the same query over the finished data in sqlstream's batch mode."""

_COLUMNS = {
    "person": "id BIGINT, name VARCHAR, emailAddress VARCHAR, creditCard VARCHAR, city VARCHAR, state VARCHAR,"
    " dateTime TIMESTAMP, extra VARCHAR",
    "auction": "id BIGINT, itemName VARCHAR, description VARCHAR, initialBid BIGINT, reserve BIGINT,"
    " dateTime TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT, extra VARCHAR",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel VARCHAR, url VARCHAR, dateTime TIMESTAMP,"
    " extra VARCHAR",
    "side_input": "key BIGINT, value VARCHAR",
}

_MACROS = """
SET TimeZone = 'UTC';
CREATE MACRO date_format(moment, pattern) AS CASE pattern
    WHEN 'yyyy-MM-dd' THEN strftime(moment, '%Y-%m-%d') WHEN 'HH:mm' THEN strftime(moment, '%H:%M') END;
CREATE MACRO split_index(text, separator, i) AS string_split(text, separator)[i + 1];
CREATE MACRO group_of(text, pattern, i) AS
    CASE WHEN regexp_matches(text, pattern) THEN regexp_extract(text, pattern, i) END;
CREATE MACRO count_char(text, c) AS length(text) - length(replace(text, c, ''));
"""

_INTERVAL = r"INTERVAL '(\d+)' SECOND"
_BOUNDS = (
    (
        rf"TUMBLE\(TABLE (\w+), DESCRIPTOR\((\w+)\), {_INTERVAL}\)",
        r"(SELECT *, time_bucket(INTERVAL '\3 seconds', \2) AS window_start,"
        r" time_bucket(INTERVAL '\3 seconds', \2) + INTERVAL '\3 seconds' AS window_end FROM \1)",
    ),
    (
        rf"HOP\(TABLE (\w+), DESCRIPTOR\((\w+)\), {_INTERVAL}, {_INTERVAL}\)",
        r"(SELECT *, window_start + INTERVAL '\4 seconds' AS window_end FROM (SELECT *, unnest(generate_series("
        r"time_bucket(INTERVAL '\3 seconds', \2) - INTERVAL '\4 seconds' + INTERVAL '\3 seconds',"
        r" time_bucket(INTERVAL '\3 seconds', \2), INTERVAL '\3 seconds')) AS window_start FROM \1))",
    ),
    (
        rf"SESSION\(TABLE (\w+) PARTITION BY (\w+), DESCRIPTOR\((\w+)\), {_INTERVAL}\)",
        r"(SELECT *, MIN(\3) OVER (PARTITION BY \2, session) AS window_start,"
        r" MAX(\3) OVER (PARTITION BY \2, session) + INTERVAL '\4 seconds' AS window_end FROM ("
        r"SELECT *, COUNT(*) FILTER (WHERE begins) OVER (PARTITION BY \2 ORDER BY \3) AS session FROM ("
        r"SELECT *, \3 >= LAG(\3) OVER (PARTITION BY \2 ORDER BY \3) + INTERVAL '\4 seconds' AS begins FROM \1)))",
    ),
)
_SPELLINGS = (
    (r"`", ""),
    *_BOUNDS,
    (r"FOR SYSTEM_TIME AS OF B\.pt ", ""),
    (r"REGEXP_EXTRACT\(", "group_of("),
)


def spelled_for_duckdb(text: str) -> str:
    for flink, duck in _SPELLINGS:
        text = re.sub(flink, duck, text)
    return text


def compared_text(query: str) -> str:
    """The query, or the part of its result that is determined, in Flink's SQL."""
    return CHECKED.get(query, "{query}").format(query=QUERIES[query])


def in_duckdb(text: str, folder: Path, file_format: str) -> pa.Table:
    """What DuckDB computes for a query in Flink's SQL from the files of ``folder``."""
    with duckdb.connect() as connection:
        connection.execute(_MACROS)
        for table, columns in _COLUMNS.items():
            connection.execute(_view(table, columns, folder, "csv" if table == "side_input" else file_format))
        return connection.sql(spelled_for_duckdb(text)).to_arrow_table()


def differing(expected: pa.Table, actual: pa.Table) -> str:
    """How many rows of the one are not in the other, and one of them; columns count by position, rows in any order."""
    names = [f"c{i}" for i in range(expected.num_columns)]
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("expected_arrow", expected.rename_columns(names))
        connection.register("actual_arrow", actual.rename_columns(names))
        connection.execute("CREATE TABLE expected AS FROM expected_arrow; CREATE TABLE actual AS FROM expected LIMIT 0")
        connection.execute("INSERT INTO actual FROM actual_arrow")
        missing = connection.sql("FROM expected EXCEPT ALL FROM actual").to_arrow_table()
        surplus = connection.sql("FROM actual EXCEPT ALL FROM expected").to_arrow_table()
        counts = len(missing), len(surplus)
        if not any(counts):
            return ""
        example = tuple((missing if counts[0] else surplus).slice(0, 1).to_pylist()[0].values())
    return f"{counts[0]:,} rows missing, {counts[1]:,} too many, such as {example!r}"


def _view(table: str, columns: str, folder: Path, file_format: str) -> str:
    types = ", ".join("{}: '{}'".format(*column.split()) for column in columns.split(","))
    path = f"{folder}/{table}/*"
    rows = {
        "parquet": f"read_parquet('{path}')",
        "csv": f"read_csv('{path}', header = false, auto_detect = false, quote = '', columns = {{{types}}})",
        "json": f"read_json('{path}', format = 'newline_delimited', columns = {{{types}}})",
    }[file_format]
    casts = ", ".join("CAST({0} AS {1}) AS {0}".format(*column.split()) for column in columns.split(","))
    clock = ", TIMESTAMP '2020-01-01' AS pt" if table == "bid" else ""
    return f"CREATE VIEW {table} AS SELECT {casts}{clock} FROM {rows}"
