"""The sqlglot dialect ``sqlstream``: Spark's SQL with the streaming language of ``streaming.lark``.

Registered under the entry point group ``sqlglot.dialects``, so ``sqlglot.parse_one(text, read="sqlstream")`` works.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.generator import Generator
from sqlglot.generators.spark import SparkGenerator
from sqlglot.tokens import TokenType

from sqlstream.grammar.calls import JsonCall, PathInto, json_call_text, steps_behind_colon
from sqlstream.grammar.nodes import GroupWindow, MatchRecognize, Node
from sqlstream.grammar.parser import SqlStreamParser
from sqlstream.grammar.quoting import quote_dotted, quote_name
from sqlstream.grammar.trees import Carrier, RoundedTime, clauses_of, table_clauses_of

# --- sqlglot's Spark generator with the streaming clauses in their places ----------------------------------------


# Spark's generator rewrites these into other queries; here they print as they were written.
_REWRITTEN = frozenset(
    {exp.Array, exp.AtTimeZone, exp.BitwiseLeftShift, exp.BitwiseRightShift, exp.From, exp.GroupConcat, exp.Pivot,
     exp.Select, exp.StrPosition, exp.Table, exp.Unnest, exp.WithinGroup}
)  # fmt: skip

_TYPES_OF_SPARK = frozenset(
    {exp.DType.TEXT, exp.DType.TIMESTAMPLTZ, exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMPTZ}
)  # fmt: skip


def member_sql(generator: SparkGenerator, column: exp.ColumnDef) -> str | None:
    """The SQL of a STRUCT's member, such as ``a: INT``; None for a column of a table. Faster than sqlglot's method,
    which searches every type for properties of columns.
    """
    says_more = any(value for key, value in column.args.items() if key not in ("this", "kind"))
    if says_more or not isinstance(column.parent, exp.DataType):
        return None
    return f"{generator.sql(column, 'this')}: {generator.sql(column, 'kind')}"


def _sign(sign: str, operand: str) -> str:
    """Two of the same are apart: ``~~`` would be another operator."""
    return f"{sign} {operand}" if operand.startswith(sign) else sign + operand


class SqlStreamGenerator(SparkGenerator):
    """Prints syntax trees as SQL, with the dialect's own clauses in a fixed order: windows among the keys of GROUP BY
    or after them, TRIGGER, EVICT and LATE DATA after HAVING, EMIT last.
    """

    EXPRESSIONS_WITHOUT_NESTED_CTES: ClassVar[set[Any]] = set()
    SUPPORTS_TEMPORAL_PRECISION = True
    SUPPORTS_BETWEEN_FLAGS = True
    TABLESAMPLE_SEED_KEYWORD = "REPEATABLE"
    WRAP_DERIVED_VALUES = True  # without parentheses a comma after the rows would go on with them

    # Types of other systems, which are refused later, keep their names.
    TYPE_MAPPING: ClassVar[dict[exp.DType, str]] = {
        kind: name for kind, name in SparkGenerator.TYPE_MAPPING.items() if kind in _TYPES_OF_SPARK
    }
    TRANSFORMS: ClassVar[dict[Any, Callable[..., str]]] = {
        **{kind: f for kind, f in SparkGenerator.TRANSFORMS.items() if kind not in _REWRITTEN},
        Carrier: lambda self, e: self.carrier(e),
        RoundedTime: lambda self, e: (
            f"{self.normalize_func(e.args['name'])}({self.sql(e, 'this')} TO {e.args['unit']})"
        ),
        JsonCall: lambda self, e: f"{self.normalize_func(e.name)}({json_call_text(e, self.sql)})",
        exp.CurrentUser: lambda self, e: "CURRENT_USER",  # with parentheses it is another node
        exp.BitwiseNot: lambda self, e: _sign("~", self.sql(e, "this")),
        exp.Kwarg: lambda self, e: f"{quote_name(e.name)} => {self.sql(e, 'expression')}",
        PathInto: lambda self, e: f"{self.sql(e, 'this')}:{steps_behind_colon(e.args['expression'])}",
    }
    AFTER_HAVING_MODIFIER_TRANSFORMS: ClassVar[dict[str, Callable[..., str]]] = {
        "stream": lambda self, e: self.firing_clauses(e),
        **SparkGenerator.AFTER_HAVING_MODIFIER_TRANSFORMS,
    }

    def indent(
        self, sql: str, level: int = 0, pad: int | None = None, skip_first: bool = False, skip_last: bool = False
    ) -> str:
        """The indented text. sqlglot's own method processes each line once per level of nesting."""
        if not self.pretty or not sql:
            return sql
        space = " " * (level * self._indent + (self.pad if pad is None else pad))
        lines, line_break, last = sql.rpartition("\n") if skip_last else (sql, "", "")
        if skip_last and not line_break:
            return sql
        return ("" if skip_first else space) + lines.replace("\n", f"\n{space}") + line_break + last

    def columndef_sql(self, expression: exp.ColumnDef, sep: str = " ") -> str:
        return member_sql(self, expression) or super().columndef_sql(expression, sep)

    def node(self, node: Node) -> str:
        """The text of a node. Its expressions are copied, because sqlglot's generators change what they print."""
        return node.text(lambda e: self.sql(e.copy()))

    def carrier(self, carrier: Carrier) -> str:
        alias = self.sql(carrier, "alias")
        printed = self.node(carrier.this) + (f" AS {alias}" if alias else "")
        return self.sep() + printed if isinstance(carrier.this, MatchRecognize) else printed

    def clause(self, node: Node | None) -> str:
        """The text of a clause with what separates it from the clause before: a line break when pretty-printing, a
        space otherwise. Empty for None.
        """
        return self.seg(self.node(node)) if node is not None else ""

    def firing_clauses(self, query: exp.Expr) -> str:
        clauses = clauses_of(query)
        return "".join(self.clause(c) for c in (clauses.trigger, clauses.evict, clauses.late_data))

    def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
        """The text of CAST, which Spark's generator would write as other functions for some types."""
        return Generator.cast_sql(self, expression, safe_prefix)

    def anonymous_sql(self, expression: exp.Anonymous) -> str:
        """The text of a call, with the database of the function if it has one."""
        name = expression.name
        written = quote_dotted(name) if "." in name else self.sql(expression, "this")
        return self.func(written, *expression.expressions, normalize="." not in name)

    def group_sql(self, expression: exp.Group) -> str:
        window = clauses_of(expression.parent).window if expression.parent else None
        if isinstance(window, GroupWindow):
            keyed = expression.copy()
            keyed.append("expressions", Carrier(this=window))
            return super().group_sql(keyed)
        grouped = super().group_sql(expression) if any(expression.args.values()) else self.seg("GROUP BY")
        return f"{grouped} {self.node(window)}" if window is not None else grouped

    def query_modifiers(self, expression: exp.Expr, *sqls: str) -> str:
        return super().query_modifiers(expression, *sqls) + self.clause(clauses_of(expression).emit)

    def table_sql(self, expression: exp.Table, sep: str = " AS ") -> str:
        return self._with_clauses(expression, sep, super().table_sql)

    def subquery_sql(self, expression: exp.Subquery, sep: str = " AS ") -> str:
        return self._with_clauses(expression, sep, super().subquery_sql)

    def _with_clauses(self, table: Any, sep: str, printed: Callable[[Any, str], str]) -> str:
        """A table in parentheses holds what it is joined with; its own clauses stand before that."""
        clauses = self.table_clauses(table)
        if not clauses:
            return printed(table, sep)
        behind = {key: table.args.pop(key, None) for key in ("joins", "laterals")}
        text = printed(table, sep) + clauses
        table.args.update(behind)
        joins = self.indent(self.expressions(table, key="joins", sep="", flat=True), skip_first=True)
        return text + joins + self.expressions(table, key="laterals", sep="")

    def lateral_sql(self, expression: exp.Lateral) -> str:
        alias = expression.args.get("alias")
        if expression.args.get("view") and alias is not None and isinstance(name := alias.this, exp.Identifier):
            expression = expression.copy()  # sqlglot prints the name of the view without its quotes
            expression.args["alias"].set("this", exp.to_identifier(self.sql(name), quoted=False))
        return super().lateral_sql(expression) + self.table_clauses(expression)

    def table_clauses(self, table: exp.Expr) -> str:
        clauses = table_clauses_of(table)
        present = (clauses.hint, clauses.watermark, clauses.barriers, clauses.lookup)
        return "".join(f" {self.node(c)}" for c in present if c is not None)

    def version_sql(self, expression: exp.Version) -> str:
        kind, value = expression.text("kind"), self.sql(expression, "expression")
        if expression.name == "TIMESTAMP":
            return f"FOR SYSTEM_TIME {kind} {value}"
        return f"{expression.name} {kind} {value}"

    def unnest_sql(self, expression: exp.Unnest) -> str:
        return Generator.unnest_sql(self, expression) + self.table_clauses(expression)

    def values_sql(self, expression: exp.Values, values_as_table: bool = True) -> str:
        alias = expression.args.get("alias")
        if alias is not None and expression.parent is None:  # no parentheses stand around a query with an alias
            rows = super().values_sql(exp.Values(expressions=[row.copy() for row in expression.expressions]))
            pivots = self.expressions(expression, key="pivots", sep="", flat=True)
            named = f"{rows} AS {self.sql(alias)}{self.table_clauses(expression)}{pivots}"
            return self.query_modifiers(expression, named)
        return super().values_sql(expression, values_as_table) + self.table_clauses(expression)

    def datatype_sql(self, expression: exp.DataType) -> str:
        """The text of a type, with NOT NULL inside of ``ARRAY<…>`` and ``MAP<…>``."""
        required = expression.args.get("nullable") is False and isinstance(expression.parent, exp.DataType)
        return super().datatype_sql(expression) + (" NOT NULL" if required else "")

    def groupconcat_sql(self, expression: exp.GroupConcat) -> str:
        return self.func("LISTAGG", expression.this, expression.args.get("separator"))

    def strposition_sql(self, expression: exp.StrPosition) -> str:
        return f"POSITION({self.sql(expression, 'substr')} IN {self.sql(expression, 'this')})"


class WithTimeGenerator(SparkGenerator):
    """Prints SQL for Spark 4, which has the type TIME."""

    TABLESAMPLE_SEED_KEYWORD = "REPEATABLE"  # SEED would be the alias of the table

    TYPE_MAPPING: ClassVar[dict[exp.DType, str]] = {**SparkGenerator.TYPE_MAPPING, exp.DType.TIME: "TIME"}


_COMMANDS = ("CALL", "EXPLAIN", "OPTIMIZE", "PREPARE", "VACUUM")

# Spark knows \0 \b \n \r \t \Z \\ \' \" \% \_ (the last two keep their backslash, for LIKE), octal \ooo, \uXXXX and
# \UXXXXXXXX. It drops the backslash of all others; here that stays, so that '\d' is the regex of Flink and PostgreSQL.
_ESCAPES = {
    "\\'": "'",
    '\\"': '"',
    **{f"\\{letter}": f"\\{letter}" for letter in "afv"},  # escapes of sqlglot and of other systems
    "\\000": "\0",  # how it is printed: a digit may follow
}


class SqlStream(Spark):
    """The dialect: Spark's tokenizer, and the parser and generator of the streaming language."""

    UNESCAPED_SEQUENCES = {**Spark.UNESCAPED_SEQUENCES, **_ESCAPES}  # noqa: RUF012 — sqlglot declares no ClassVar

    class Tokenizer(Spark.Tokenizer):
        DROP_UNKNOWN_ESCAPES = False
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            **{k: v for k, v in Spark.Tokenizer.KEYWORDS.items() if k not in _COMMANDS},
            "BYTES": TokenType.VARBINARY,
            "MATCH_CONDITION": TokenType.MATCH_CONDITION,
            "MATCH_RECOGNIZE": TokenType.MATCH_RECOGNIZE,
            "ROW": TokenType.STRUCT,
        }
        RAW_STRINGS: ClassVar[list[str | tuple[str, str]]] = [*Spark.Tokenizer.RAW_STRINGS, ("$$", "$$")]
        UNICODE_STRINGS: ClassVar[list[str | tuple[str, str]]] = [("U&'", "'"), ("u&'", "'")]
        STRING_ESCAPES: ClassVar[list[str]] = ["'", '"', "\\"]  # a doubled quote is a quote, as in Spark 4
        COMMANDS: ClassVar[set[TokenType]] = set()  # no statement is kept as a string
        TOKENS_PRECEDING_HINT: ClassVar[set[TokenType]] = (
            Spark.Tokenizer.TOKENS_PRECEDING_HINT
            | SqlStreamParser.ID_VAR_TOKENS
            | {TokenType.R_PAREN, TokenType.R_BRACE}
        )

    Parser = SqlStreamParser
    Generator = SqlStreamGenerator


class SparkWithTime(Spark):
    """The dialect that Spark 4 reads, with the type TIME."""

    Generator = WithTimeGenerator
