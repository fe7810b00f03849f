"""What parses and is not executed: one table of codes, names and hints, used by the whole binder.

Every entry refuses with an ``UnsupportedError``; nothing that parses is ever ignored. ``planner.binder.completeness``
refuses whatever nobody consumed.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlstream.errors import Diagnostic, Span, UnsupportedError


@dataclass(frozen=True)
class Unsupported:
    """``what`` is the plural subject of the message, ``hint`` the sentence that says what to write instead."""

    code: str
    what: str
    hint: str
    detail: str | None = None


FEATURES: dict[str, Unsupported] = {
    "kind of join": Unsupported(
        "SS301", "joins of this kind", "Write [INNER], LEFT, RIGHT, FULL, LEFT SEMI or LEFT ANTI JOIN with ON or USING."
    ),
    "join": Unsupported(
        "SS301",
        "joins of this form",
        "Join a table, a view or a query in parentheses; UNNEST and LATERAL TABLE with ON TRUE.",
    ),
    "temporal join": Unsupported(
        "SS302",
        "tables as of a time that are not joined",
        "Write FROM o JOIN t FOR SYSTEM_TIME AS OF o.ts ON t.id = o.id, where ts is a time attribute of o.",
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
        "SS304", "frames of this kind", "Write ROWS or RANGE BETWEEN … PRECEDING AND CURRENT ROW or n FOLLOWING."
    ),
    "over function": Unsupported(
        "SS304",
        "these functions over a frame",
        "Write an aggregate, ROW_NUMBER, RANK, DENSE_RANK, LAG, LEAD or NTH_VALUE.",
    ),
    "subquery": Unsupported(
        "SS308",
        "subqueries in this place",
        "Write it into WHERE, HAVING, QUALIFY, ON, GROUP BY or the select list, or join its tables in FROM.",
    ),
    "correlated subquery": Unsupported(
        "SS308",
        "subqueries that read the query around them in this way",
        "Compare with columns of the query right around it by equalities in WHERE of the subquery, or join its tables.",
    ),
    "subquery of rows": Unsupported(
        "SS308",
        "comparisons of several values that may be NULL with a subquery, below OR, NOT and CASE",
        "Write them among the conditions of WHERE, as in WHERE (a, b) NOT IN (SELECT …), or compare one value.",
    ),
    "unbounded window aggregate": Unsupported(
        "SS309",
        "aggregates over a window table function that do not group by its window",
        "Add the window's columns: GROUP BY …, window_start, window_end.",
        "The result would be one unbounded aggregate over all windows.",
    ),
    "emit": Unsupported(
        "SS313",
        "EMIT clauses on rows of a window table function that nothing aggregates",
        "Aggregate in the windows, or leave EMIT out.",
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
    ),
    "match": Unsupported(
        "SS322", "MATCH_RECOGNIZE clauses", "Session windows with COLLECT_LIST find simple sequences."
    ),
    "process function": Unsupported(
        "SS323",
        "functions over tables that are no process functions, and process functions without TABLE",
        "Write FROM f(input => TABLE t PARTITION BY k) with a class that extends ProcessFunction.",
    ),
    "hint": Unsupported("SS324", "hints", "Remove the hint; options of a table belong into WITH of its CREATE TABLE."),
    "changelog input": Unsupported(
        "SS325", "inputs with updates and deletions", "Read an append-only table ('changelog-mode' = 'I')."
    ),
    "mixed time": Unsupported(
        "SS327", "queries with both event-time and processing-time windows", "Run two queries, connected by a table."
    ),
    "module": Unsupported("SS329", "USE MODULES statements", "All functions are there; SHOW FUNCTIONS lists them."),
    "several generators": Unsupported("SS330", "several generators in one select list", "Use LATERAL VIEW for each."),
    "pivot": Unsupported(
        "SS331", "PIVOT and UNPIVOT clauses", "Write one aggregate with FILTER (WHERE …) for each column."
    ),
    "sample": Unsupported(
        "SS332",
        "TABLESAMPLE clauses of this form",
        "Write TABLESAMPLE (10 PERCENT) behind a table that only inserts: each row is taken by itself.",
        "A stream has no number of rows, and a row that is withdrawn must be known to have been taken.",
    ),
    "recursive": Unsupported("SS335", "recursive queries", "Write the levels out with UNION ALL."),
    "watermark function": Unsupported("SS337", "calls of CURRENT_WATERMARK", "Late rows are dropped by the windows."),
    "named arguments": Unsupported("SS338", "named arguments of functions", "Give the arguments by position."),
    "async function": Unsupported(
        "SS339",
        "asynchronous functions outside of LATERAL TABLE",
        "Write FROM t, LATERAL TABLE(f(t.x)) AS a LOOKUP ASYNC (…), or declare the function without async.",
    ),
    "function kind": Unsupported(
        "SS340", "functions of this kind in an expression", "Only scalar, aggregate and table functions are executed."
    ),
    "parameter": Unsupported("SS345", "parameters in statements", "Write the value, or run the file with --param."),
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
    ),
    "overlaps": Unsupported("SS354", "OVERLAPS predicates", "Write start1 < end2 AND start2 < end1."),
    "quantified": Unsupported(
        "SS355",
        "comparisons with ANY, SOME and ALL",
        "Write a IN (1, 2), ARRAY_CONTAINS(b, a), or EXISTS(b, x -> a > x) and FORALL(b, x -> a > x) of an array b.",
    ),
    "extract": Unsupported(
        "SS356",
        "calls of EXTRACT and DATE_PART with this field",
        "Fields are YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE, SECOND, DOW, ISODOW, DOY, ISOYEAR, DECADE, CENTURY, "
        "MILLENNIUM and EPOCH; UNIX_MILLIS(ts) and UNIX_MICROS(ts) count smaller units.",
    ),
    "time": Unsupported("SS357", "values of type TIME", "Keep a TIMESTAMP, or the text 'HH:mm:ss'."),
    "syntax": Unsupported("SS399", "parts of a query of this form", "Remove it."),
}


def diagnostic(feature: str, span: Span | None, detail: str | None = None) -> Diagnostic:
    """The refusal of a ``feature`` of the table; ``detail`` is a sentence about this occurrence."""
    entry = FEATURES[feature]
    return Diagnostic(entry.code, f"{entry.what} are not executed yet", span, detail or entry.detail, entry.hint)


def refusal(feature: str, span: Span | None, detail: str | None = None) -> UnsupportedError:
    refused = diagnostic(feature, span, detail)
    return UnsupportedError(refused.code, refused.message, span, diagnostics=(refused,))
