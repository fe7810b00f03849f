"""Queries in the words of Flink SQL and Spark SQL, and from these in ours: where the meaning is the same, else refused.

What differs is refused with all its places at once. Notes say what must hold for the meaning to be the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

from sqlglot import exp

from sqlstream.analysis.answers import Transpiled
from sqlstream.analysis.tables import type_of
from sqlstream.errors import Diagnostic, Span, SqlStreamError
from sqlstream.functions.catalogue import same_in_flink
from sqlstream.grammar import clauses_of, format_script, nodes, parse_script, span_of, table_clauses_of, to_sql
from sqlstream.grammar.depth import on_deep_stack
from sqlstream.grammar.dialect import SqlStreamGenerator
from sqlstream.grammar.formatting import pretty
from sqlstream.grammar.script import tokenize
from sqlstream.grammar.trees import walk
from sqlstream.planner.batch import resolve, spark_text
from sqlstream.planner.batch.clauses import sorted_by_columns
from sqlstream.planner.batch.decision import streaming_clause
from sqlstream.planner.batch.newest_rows import with_newest_first
from sqlstream.planner.batch.respelling import for_spark
from sqlstream.planner.batch.spark_gaps import with_values_of_groups
from sqlstream.planner.catalog import Catalog
from sqlstream.planner.expressions import as_expression
from sqlstream.planner.functions.calls import spark_name
from sqlstream.statements.checking import changes_from_flink, check_script
from sqlstream.workspace import Workspace

NOT_THE_SAME = "SS381"

Dialect = Literal["sqlstream", "flink", "spark"]
DIALECTS: tuple[Dialect, ...] = ("sqlstream", "flink", "spark")

_ERRORS = "A number that is too large and a CAST that fails are errors in one system and may be values in the other."
_UTC = "The session's time zone is UTC."
_ANSI = "spark.sql.ansi.enabled is true, as it is unless it was changed."
_INSTANTS = "Columns that are TIMESTAMP here are TIMESTAMP_LTZ in Flink."
_FINISHED = "The rows are those of finished data; on streams Spark updates results otherwise."


@on_deep_stack
def transpiled(text: str, source: Dialect, target: Dialect, workspace: Workspace) -> Transpiled:
    """Translates the text into the dialect ``target``. Raises SqlStreamError SS381 with everything whose meaning would
    change.
    """
    for dialect in (source, target):
        if dialect not in DIALECTS:
            raise ValueError(f"no dialect {dialect!r}; dialects are {', '.join(DIALECTS)}")
    ours, notes = _INTO_OURS[source](text, workspace) if source != target else (text, ())
    if target == "sqlstream" or source == target:
        return Transpiled(ours, notes)
    words, more = _FROM_OURS[target](ours, workspace)
    return Transpiled(words, tuple(dict.fromkeys((*notes, *more))))


Translated = tuple[str, tuple[str, ...]]


def _refusal(message: str, span: Span | None = None, hint: str | None = None) -> Diagnostic:
    return Diagnostic(NOT_THE_SAME, message, span, hint=hint)


def _require(wrong: list[Diagnostic], text: str) -> None:
    if wrong:
        ordered = sorted(dict.fromkeys(wrong), key=lambda d: d.span.start if d.span else len(text))
        raise SqlStreamError.of(ordered).with_source(text)


# --- from Flink -----------------------------------------------------------------------------------------------

_INSTANT = re.compile("a TIMESTAMP is an instant")


def _from_flink(text: str, workspace: Workspace) -> Translated:
    """The text as it is: Flink's words are ours. In UTC an instant is what Flink's TIMESTAMP without a zone is."""
    _require(list(check_script(text, workspace)), text)
    changes = changes_from_flink(text)
    in_utc = workspace.settings["table.local-time-zone"] == "UTC"
    instants = [change for change in changes if _INSTANT.match(change.message)]
    wrong = [_refusal(c.message, c.span, c.detail) for c in changes if not (in_utc and c in instants)]
    wrong += [d for statement in parse_script(text) for d in _differing(statement, workspace.catalog)]
    _require(wrong, text)
    return format_script(text), (_ERRORS, *([_UTC] if instants else []))


# --- to Flink -------------------------------------------------------------------------------------------------

_SYNTAX_OF_OURS: dict[type[exp.Expr], str] = {
    exp.Qualify: "QUALIFY", exp.Lateral: "LATERAL VIEW", exp.Pivot: "PIVOT", exp.Lambda: "a lambda",
    exp.TableSample: "TABLESAMPLE", exp.Sort: "SORT BY", exp.Distribute: "DISTRIBUTE BY", exp.Cluster: "CLUSTER BY",
    exp.ILike: "ILIKE", exp.RegexpLike: "RLIKE", exp.IntDiv: "DIV", exp.Struct: "STRUCT(…)",
    exp.BitwiseAnd: "&", exp.BitwiseOr: "|", exp.BitwiseXor: "^", exp.BitwiseNot: "~", exp.JSONExtract: "a path",
}  # fmt: skip
_ONLY_OURS = ("trigger", "evict", "late_data", "emit", "barriers", "lookup")
_WINDOWS_OF_OURS = (nodes.CountWindow, nodes.GlobalWindow, nodes.UserWindow)


def _to_flink(text: str, workspace: Workspace) -> Translated:
    statements = parse_script(text)
    wrong = [d for statement in statements for d in _not_in_flink(statement, workspace.catalog)]
    wrong += check_script(text, workspace)
    _require(wrong, text)
    return ";\n\n".join(_flink_text(statement) for statement in statements) + ";\n", (_INSTANTS, _UTC, _ERRORS)


def _not_in_flink(statement: nodes.Statement, catalog: Catalog) -> Iterator[Diagnostic]:
    if not isinstance(statement, nodes.Query | nodes.Insert | nodes.CreateView):
        yield _refusal("only queries, INSERT and CREATE VIEW are written in Flink's words", statement.span)
        return
    for clause in _clauses_of(statement):
        yield _refusal(f"{clause[0]} is not in Flink SQL", clause[1])
    differing = [*_differing(statement, catalog)]
    yield from differing
    told = {diagnostic.span for diagnostic in differing}
    for node in walk(statement):
        yield from (diagnostic for diagnostic in _foreign(node, catalog) if diagnostic.span not in told)


def _clauses_of(statement: nodes.Statement) -> Iterator[tuple[str, Span]]:
    for node in walk(statement):
        of_query, of_table = clauses_of(node), table_clauses_of(node)
        for name in _ONLY_OURS:
            for clauses in (of_query, of_table):
                clause = getattr(clauses, name, None)
                if isinstance(clause, nodes.Node):
                    yield name.upper().replace("_", " "), clause.span
        if isinstance(of_query.window, _WINDOWS_OF_OURS):
            yield "this window", of_query.window.span
        if of_table.watermark is not None:
            yield "WATERMARK in FROM", of_table.watermark.span


def _foreign(node: exp.Expr, catalog: Catalog) -> Iterator[Diagnostic]:
    shown = next((text for kind, text in _SYNTAX_OF_OURS.items() if isinstance(node, kind)), None)
    if shown == "LATERAL VIEW" and not node.args.get("view"):
        shown = None
    if shown is not None:
        yield _refusal(f"{shown} is not in Flink SQL, or not the same there", span_of(node))
    match node:
        case exp.Join() if (node.text("kind").upper() in ("SEMI", "ANTI")) or node.text("method").upper() == "ASOF":
            yield _refusal(f"a {node.text('kind') or node.text('method')} JOIN is not in Flink SQL", span_of(node))
        case exp.Group() if node.args.get("all") or any(isinstance(e, exp.Literal) for e in node.expressions):
            yield _refusal("GROUP BY with ALL or numbers of columns is not in Flink SQL", span_of(node))
        case exp.Func():
            name = spark_name(node)
            user = isinstance(node, exp.Anonymous) and catalog.function(node.name) is not None
            if user or (name is not None and not same_in_flink(name)):
                why = "a function of the catalog here" if user else "no function that is the same in Flink"
                yield _refusal(f'"{node.name if user else name}" is {why}', span_of(node))


class _FlinkGenerator(SqlStreamGenerator):
    """Flink reads no escapes in texts; instants are TIMESTAMP_LTZ there."""

    TYPE_MAPPING: ClassVar[dict[exp.DType, str]] = {
        **SqlStreamGenerator.TYPE_MAPPING,
        exp.DType.TIMESTAMP: "TIMESTAMP_LTZ(6)",
        exp.DType.TIMESTAMPTZ: "TIMESTAMP_LTZ(6)",
        exp.DType.TIMESTAMPLTZ: "TIMESTAMP_LTZ(6)",
        exp.DType.TIMESTAMPNTZ: "TIMESTAMP(6)",
        exp.DType.DATETIME: "TIMESTAMP_LTZ(6)",
        exp.DType.BINARY: "BYTES",
        exp.DType.VARBINARY: "BYTES",
    }
    TRANSFORMS: ClassVar[dict[Any, Callable[..., str]]] = {
        **SqlStreamGenerator.TRANSFORMS,
        exp.NullSafeEQ: lambda self, e: f"{self.sql(e, 'this')} IS NOT DISTINCT FROM {self.sql(e, 'expression')}",
        exp.NullSafeNEQ: lambda self, e: f"{self.sql(e, 'this')} IS DISTINCT FROM {self.sql(e, 'expression')}",
    }

    def literal_sql(self, expression: exp.Literal) -> str:
        if not expression.is_string:
            return super().literal_sql(expression)
        return "'" + expression.name.replace("'", "''") + "'"


def _flink_text(statement: nodes.Statement) -> str:
    def spelled(expression: exp.Expr) -> str:
        return _FlinkGenerator(pretty=True, dialect="sqlstream", normalize_functions=False, comments=False).generate(
            expression
        )

    match statement:
        case nodes.Query():
            return spelled(statement.query)
        case nodes.Insert():
            columns = f" ({', '.join(f'`{c}`' for c in statement.columns)})" if statement.columns else ""
            return f"INSERT INTO {statement.target}{columns}\n{spelled(statement.query)}"
        case nodes.CreateView():
            head = to_sql(replace(statement, query=exp.select(exp.Null()))).partition(" AS ")[0]
            return f"{head} AS\n{spelled(statement.query)}"
    raise TypeError(type(statement).__name__)


# --- what is called the same in Flink and gives something else ------------------------------------------------


def _differing(statement: nodes.Statement, catalog: Catalog) -> Iterator[Diagnostic]:
    for node in walk(statement):
        for message, hint in _differences(node, catalog):
            yield _refusal(f"{message} is something else in Flink", span_of(node), hint)


_FLOATS = ("DOUBLE", "FLOAT")


def _differences(node: exp.Expr, catalog: Catalog) -> Iterator[tuple[str, str]]:
    match node:
        case exp.Div():
            kinds = [type_of(operand, catalog).name for operand in (node.this, node.expression)]
            if not any(kind in _FLOATS for kind in kinds):
                yield "the quotient of integers or decimals", "CAST one of them AS DOUBLE."
        case exp.Avg():
            if type_of(node.this, catalog).name not in _FLOATS:
                yield "AVG of integers or decimals", "CAST its argument AS DOUBLE."
        case exp.Bracket():
            yield "a place in brackets", "ELEMENT_AT counts from 1 in both."
        case exp.Func():
            yield from _calls(node)


def _calls(call: exp.Func) -> Iterator[tuple[str, str]]:
    name, arguments = spark_name(call), [*call.iter_expressions()]
    match name, len(arguments):
        case (("ltrim" | "rtrim"), 2):
            yield f"{name.upper()} with two arguments", "Write TRIM(LEADING … FROM …) or TRIM(TRAILING … FROM …)."
        case "regexp_extract", 2:
            yield "REGEXP_EXTRACT without a number", "Give the number of the group."
        case "str_to_map", 1:
            yield "STR_TO_MAP without separators", "Give both separators."
        case (("greatest" | "least" | "typeof" | "timestampadd" | "split"), _):
            yield name.upper(), "Write it in words that are the same in both, such as CASE."
        case (("ln" | "log" | "log2" | "log10" | "sign"), _):
            yield f"{name.upper()} of some numbers", "It has no counterpart."
        case (("substring" | "substr"), _) if not _is_positive(arguments[1:2]):
            yield "SUBSTRING from a place that may be before the text", "Write the place as a positive number."
        case (("ceil" | "ceiling" | "floor"), _) if "unit" not in call.args:
            yield f"the type of {name.upper()} of a number", "CAST its result."


def _is_positive(arguments: Sequence[exp.Expr]) -> bool:
    return bool(arguments) and isinstance(arguments[0], exp.Literal) and int(arguments[0].name or 0) > 0


# --- Spark ----------------------------------------------------------------------------------------------------


def _to_spark(text: str, workspace: Workspace) -> Translated:
    """Each query spelled as over finished data, with the names of tables as they are, and views written out."""
    texts, wrong = list[str](), list[Diagnostic]()
    for statement in parse_script(text):
        if not isinstance(statement, nodes.Query):
            wrong.append(_refusal("only queries are written in Spark's words", statement.span))
            continue
        names: dict[str, str] = {}

        def named(table: Any, names: dict[str, str] = names) -> str:
            names[table.name] = table.name
            return str(table.name)

        resolved = resolve(statement.query, workspace.catalog, named)
        tables = {table_input.table.name: table_input.table for table_input in resolved.inputs}
        sorted_query = sorted_by_columns(resolved.query)
        clause = streaming_clause(sorted_query, workspace.catalog, tables)
        users = [c for c in resolved.query.find_all(exp.Anonymous) if workspace.catalog.function(c.name) is not None]
        wrong += [_refusal(f'"{call.name}" is a function of the catalog here', span_of(call)) for call in users]
        if clause is not None:
            wrong.append(_refusal(f"{clause.name} is not in Spark SQL", clause.span))
            continue
        newest_first = with_newest_first(sorted_query, workspace.catalog, tables)
        query = for_spark(with_values_of_groups(newest_first, workspace.catalog, tables), workspace.catalog)
        texts.append(spark_text(_dotted(query, names)).text)
    _require(wrong, text)
    return ";\n\n".join(texts) + ";\n", (_ANSI, _UTC, _FINISHED)


def _dotted(query: exp.Expr, names: dict[str, str]) -> exp.Expr:
    """The names of tables of other databases as names with dots."""
    for table in query.find_all(exp.Table):
        if table.name in names and "." in table.name:
            parts = [exp.to_identifier(part, quoted=True) for part in table.name.split(".")]
            for key, part in zip(("this", "db", "catalog"), reversed(parts), strict=False):
                table.set(key, part)
    return query


_KEEPS_NULLS = {"first_value": "RESPECT NULLS", "last_value": "RESPECT NULLS", "array_agg": "IGNORE NULLS"}
_KNOWN_ESCAPES = frozenset("0bnrtZ\\'\"%_uU1234567abfv")


def _from_spark(text: str, workspace: Workspace) -> Translated:
    """Spark's words are ours, but for what we take from Flink: escapes, NULLs in some aggregates, LISTAGG."""
    wrong: list[Diagnostic] = []
    for token in tokenize(text):
        written = text[token.start : token.end + 1]
        unknown = re.search(r"\\(.)", re.sub(r"\\[\\'\"]", "", written)) if written[:1] in "'\"" else None
        if unknown is not None and unknown[1] not in _KNOWN_ESCAPES:
            message = f"Spark leaves the backslash of \\{unknown[1]} out, and here it stays"
            wrong.append(_refusal(message, Span(token.start, token.end + 1), "Write r'…' for a text with backslashes."))
    statements = []
    for statement in parse_script(text):
        if not isinstance(statement, nodes.Query | nodes.CreateView | nodes.Insert):
            wrong.append(_refusal("only queries, INSERT and CREATE VIEW are read in Spark's words", statement.span))
            continue
        changed = as_expression(statement.query.copy().transform(_as_in_spark))
        statements.append(replace(statement, query=changed))
    _require(wrong, text)
    written = "\n\n".join(f"{pretty(statement)};" for statement in statements) + "\n"
    _require(list(check_script(written, workspace)), written)
    return written, (_ANSI, _UTC)


def _as_in_spark(node: exp.Expr) -> exp.Expr:
    name = spark_name(node) if isinstance(node, exp.Func) else None
    if name in _KEEPS_NULLS and not isinstance(node.parent, exp.IgnoreNulls | exp.RespectNulls):
        kind = exp.RespectNulls if _KEEPS_NULLS[name] == "RESPECT NULLS" else exp.IgnoreNulls
        return kind(this=node.copy())
    if isinstance(node, exp.GroupConcat) and not _is_written(node.args.get("separator")):
        copy = node.copy()
        copy.set("separator", exp.Literal.string(""))
        return copy
    return node


def _is_written(expression: exp.Expr | None) -> bool:
    """False for what the parser puts in where nothing is said."""
    return expression is not None and span_of(expression) is not None


_INTO_OURS: dict[str, Callable[[str, Workspace], Translated]] = {
    "flink": _from_flink, "spark": _from_spark, "sqlstream": lambda text, workspace: (text, ()),
}  # fmt: skip
_FROM_OURS: dict[str, Callable[[str, Workspace], Translated]] = {"flink": _to_flink, "spark": _to_spark}
