"""What parses and is not executed: one table of codes, names and hints, used by the whole binder.

Every entry refuses with an ``UnsupportedError``; nothing that parses is ever ignored. ``planner.binder.context``
refuses clauses that no binding function has read.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlstream.errors import Diagnostic, Span, UnsupportedError


@dataclass(frozen=True)
class Unsupported:
    """A clause that is not supported. ``what`` is the plural subject of the message, ``hint`` the sentence that
    says what to write instead.
    """

    code: str
    what: str
    hint: str
    detail: str | None = None


FEATURES: dict[str, Unsupported] = {
    "kind of join": Unsupported(
        "SS301", "joins of this kind", "Write [NATURAL] [INNER], LEFT, RIGHT, FULL, LEFT SEMI or LEFT ANTI JOIN."
    ),
    "join": Unsupported(
        "SS301",
        "joins of this form",
        "Join a table, a view or a query in parentheses; UNNEST and LATERAL TABLE by INNER, CROSS or LEFT JOIN.",
    ),
    "temporal join": Unsupported(
        "SS302",
        "tables as of a time that are not joined",
        "Write FROM o JOIN t FOR SYSTEM_TIME AS OF o.ts ON t.id = o.id, where ts is a time attribute of o.",
        "A stream has no other time than now; Flink, too, reads the past of finished tables alone.",
    ),
    "past": Unsupported(
        "SS302",
        "tables of this connector, and views, as of a constant time or version",
        "Tables of the connectors delta and iceberg are read so. To look rows up, write FOR SYSTEM_TIME AS OF o.pt.",
    ),
    "over": Unsupported(
        "SS304",
        "OVER windows without an order of rows, or with the rows that came last in front",
        "Write ORDER BY, and pt AS PROCTIME() in ascending order there; or bound ROW_NUMBER, RANK or DENSE_RANK from "
        "above, as in WHERE rn <= 3.",
    ),
    "over here": Unsupported(
        "SS304", "OVER windows in this place", "Compute them in the select list of a query in FROM."
    ),
    "over frame": Unsupported(
        "SS304",
        "frames of GROUPS",
        "Write ROWS or RANGE BETWEEN … PRECEDING AND CURRENT ROW or n FOLLOWING.",
        "Neither Flink nor Spark has them.",
    ),
    "over function": Unsupported(
        "SS304",
        "these functions over a frame",
        "Write an aggregate, ROW_NUMBER, RANK, DENSE_RANK, NTILE, PERCENT_RANK, CUME_DIST, LAG, LEAD or NTH_VALUE.",
    ),
    "subquery": Unsupported(
        "SS308",
        "subqueries in this place",
        "Write it into WHERE, HAVING, QUALIFY, ON, GROUP BY or the select list, or join its tables in FROM.",
    ),
    "subquery of both sides": Unsupported(
        "SS308",
        "subqueries in ON that read both sides of an outer, semi, anti or ASOF join",
        "Join the distinct rows of the subquery to one side in FROM, and compare their columns in ON; an INNER JOIN "
        "takes the condition as it is.",
    ),
    "array subquery": Unsupported(
        "SS308",
        "subqueries in ARRAY",
        "Write (SELECT ARRAY_AGG(x) FROM …), which is NULL without rows.",
        "Neither Flink nor Spark has them.",
    ),
    "correlated subquery": Unsupported(
        "SS308",
        "subqueries that read the query around them in this way",
        "Read them in the select list and in WHERE of one SELECT, with the name of their table where that is further "
        "outside, as in t.a; or join its tables.",
    ),
    "subquery of rows": Unsupported(
        "SS308",
        "comparisons of more than three values that may be NULL with a subquery, below OR, NOT and CASE",
        "Write them among the conditions of WHERE, as in WHERE (a, b) NOT IN (SELECT …), or compare fewer values.",
    ),
    "emit": Unsupported(
        "SS313",
        "EMIT clauses on rows of a window table function that nothing aggregates",
        "Aggregate in the windows, or leave EMIT out.",
        "EMIT says when a window gives its result, and rows without an aggregate come out as they are.",
    ),
    "emit without window": Unsupported(
        "SS313",
        "EMIT clauses other than EMIT CHANGES and EMIT ON WINDOW CLOSE on a query without a window",
        "Leave EMIT out: the rows of a query without a window come out at once.",
    ),
    "emit on close": Unsupported(
        "SS313",
        "EMIT ON WINDOW CLOSE clauses on rows that no watermark makes final",
        "Select the column named by WATERMARK FOR, with GROUP BY as one of its keys; or group by a window of it.",
        "No column of the result is a time attribute: GROUP BY keeps its key one, a join without bounds on times none.",
    ),
    "window columns in aggregates": Unsupported(
        "SS320",
        "aggregates of window columns in these windows",
        "Aggregate the window columns in a query above.",
        "Where a window ends is known only when it fires.",
    ),
    "barriers": Unsupported(
        "SS321",
        "ALIGN BARRIERS clauses behind a joined table",
        "Align the rows first: FROM (SELECT * FROM t ALIGN BARRIERS (…)) AS t JOIN ….",
        "Rows are held by the channel of their own table; those of a join have two.",
    ),
    "match": Unsupported(
        "SS322", "MATCH_RECOGNIZE clauses of this form", "Write ONE ROW PER MATCH or ALL ROWS PER MATCH."
    ),
    "match join": Unsupported(
        "SS322",
        "MATCH_RECOGNIZE clauses behind joined tables",
        "Join below or above: FROM (SELECT … FROM t JOIN u ON …) MATCH_RECOGNIZE (…).",
    ),
    "process function": Unsupported(
        "SS323",
        "functions over tables that are no process functions, and process functions without TABLE",
        "Write FROM f(input => TABLE t PARTITION BY k) with a class that extends ProcessFunction.",
    ),
    "hint": Unsupported("SS324", "hints", "Remove the hint; options of a table belong into WITH of its CREATE TABLE."),
    "changelog input": Unsupported(
        "SS325",
        "inputs with updates and deletions",
        "Read an append-only table ('changelog-mode' = 'I').",
        "The operator cannot take back what a row has made.",
    ),
    "mixed time": Unsupported(
        "SS327",
        "queries with both event-time and processing-time windows",
        "Run two queries, connected by a table.",
        "Spark gives the operators with state of one query one kind of timer.",
    ),
    "module": Unsupported(
        "SS329", "USE MODULES statements of other modules", "All functions are there; SHOW FUNCTIONS lists them."
    ),
    "buckets": Unsupported(
        "SS358",
        "INSERT statements into tables that are DISTRIBUTED",
        "Leave DISTRIBUTED out; 'key.fields' of Kafka says by which columns messages go to its partitions.",
        "No connector has buckets, as none that comes with Flink has. Reading such a table makes no use of them.",
    ),
    "on conflict": Unsupported(
        "SS389",
        "ON CONFLICT clauses other than DO DEDUPLICATE",
        "Write DO DEDUPLICATE: of rows with the same PRIMARY KEY the last one that is left counts.",
        "Which row came first, and that another one comes, is known only to who keeps all rows of a key for ever.",
    ),
    "pivot": Unsupported(
        "SS331",
        "PIVOT and UNPIVOT clauses between a joined table and its ON or USING",
        "Write them behind ON, for the rows of the join, or FROM a JOIN (SELECT * FROM b PIVOT (…)) AS b ON ….",
    ),
    "sample": Unsupported(
        "SS332",
        "TABLESAMPLE clauses of this form",
        "Write TABLESAMPLE (10 PERCENT) behind a table that only inserts: each row is taken by itself.",
        "A stream has no number of rows, a row that is withdrawn must be known to have been taken, and micro-batches "
        "draw other numbers each time, so that nothing is REPEATABLE.",
    ),
    "recursive": Unsupported(
        "SS335",
        "recursive queries on a stream",
        "Write the levels out with UNION ALL, or run the query over finished data.",
        "Flink has none, and Spark runs them over finished data alone, as is done here: a row that comes later would "
        "have to go through all levels again.",
    ),
    "watermark function": Unsupported(
        "SS337",
        "calls of CURRENT_WATERMARK in this place",
        "Write it in WHERE, in the select list or inside an aggregate.",
        "It tells a row that comes the watermark; results of groups and joins come later.",
    ),
    "named arguments": Unsupported(
        "SS338",
        "named arguments of functions of Spark that take none",
        "Give the arguments by position.",
        "Spark has names for those of mask, count_min_sketch, explode, posexplode and inline alone.",
    ),
    "async function": Unsupported(
        "SS339",
        "asynchronous functions outside of LATERAL TABLE",
        "Write FROM t, LATERAL TABLE(f(t.x)) AS a LOOKUP ASYNC (…), or declare the function without async.",
        "LOOKUP ASYNC says how many wait, in which order answers come and what becomes of errors.",
    ),
    "function kind": Unsupported(
        "SS340",
        "functions of this kind in an expression",
        "Write f(TABLE t …) of a process function in FROM; assigners, triggers and evictors stand behind USING.",
        "An expression has one value for each row or group.",
    ),
    "parameter": Unsupported(
        "SS345",
        "parameters without a value",
        "Give values: session.sql(text, args=[…]) for ?, args={…} for :name, --param NAME=VALUE on the command line.",
    ),
    "window apart": Unsupported(
        "SS349",
        "these windows apart from their window function",
        "Filter below the window, as in TABLE (SELECT … WHERE …), and keep window_start and window_end.",
        "Windows of rows, and those with TRIGGER, EVICT, LATE DATA, EMIT or panes, fire where they are assigned.",
    ),
    "similar to": Unsupported(
        "SS353",
        "SIMILAR TO predicates with a pattern that is no constant text",
        "Write the pattern as a text, or use RLIKE.",
        "Spark has no SIMILAR TO: a pattern becomes a regular expression before the query runs.",
    ),
    "quantified": Unsupported(
        "SS355",
        "comparisons with ANY, SOME and ALL of an array",
        "Write EXISTS(b, x -> a > x) and FORALL(b, x -> a > x).",
        "Neither Flink nor Spark has them.",
    ),
    "extract": Unsupported(
        "SS356",
        "calls of EXTRACT and DATE_PART with this field",
        "Fields are YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE, SECOND, DOW, ISODOW, DOY, ISOYEAR, DECADE, CENTURY, "
        "MILLENNIUM and EPOCH; UNIX_MILLIS(ts) and UNIX_MICROS(ts) count smaller units.",
    ),
    "json path": Unsupported(
        "SS366",
        "paths of JSON functions of this form",
        "Write steps such as .name, ['name'], [0] and [*], as in '$.a[0].b' or 'lax $.items[*].price'.",
    ),
    "duplicate keys": Unsupported(
        "SS367",
        "JSON documents with duplicate keys",
        "Leave the second argument out: two members of one name are an error, or NULL for TRY_PARSE_JSON.",
    ),
    "aggregate limit": Unsupported(
        "SS399",
        "limits among the arguments of an aggregate",
        "Write SLICE(ARRAY_AGG(x ORDER BY y), 1, n) for the first n values.",
    ),
    "alias of a random value": Unsupported(
        "SS359",
        "columns that read the alias of a random value of a group, of an OVER or of a subquery",
        "Compute it in a query in FROM.",
        "Each column would have a value of its own.",
    ),
    "syntax": Unsupported("SS399", "parts of a query of this form", "Remove it."),
}


def diagnostic(feature: str, span: Span | None, detail: str | None = None) -> Diagnostic:
    """Returns the message that a ``feature`` of the table of unsupported clauses is refused. ``detail`` is a sentence
    on this use of it; None for the table's own.
    """
    entry = FEATURES[feature]
    return Diagnostic(entry.code, f"{entry.what} are not executed yet", span, detail or entry.detail, entry.hint)


def refusal(feature: str, span: Span | None, detail: str | None = None) -> UnsupportedError:
    """Returns the UnsupportedError for a ``feature`` of the table of unsupported clauses. ``detail`` is a sentence on
    this use of it.
    """
    refused = diagnostic(feature, span, detail)
    return UnsupportedError(refused.code, refused.message, span, diagnostics=(refused,))
