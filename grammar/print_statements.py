"""Statements back to text."""

from __future__ import annotations

from sqlstream.grammar import nodes as n
from sqlstream.grammar.printer import Sql, joined, print_node
from sqlstream.grammar.quoting import quote_name, quote_string


def _flag(word: str, given: bool) -> str | None:
    return word if given else None


def _string(word: str, text: str | None) -> str | None:
    return f"{word} {quote_string(text)}" if text is not None else None


def _columns(names: tuple[str, ...]) -> str | None:
    return f"({', '.join(quote_name(name) for name in names)})" if names else None


def name_text(name: n.Name) -> str:
    return ".".join(quote_name(name_part) for name_part in name.parts)


@print_node.register
def _(node: n.Name, sql: Sql) -> str:
    return name_text(node)


@print_node.register
def _(node: n.Option, sql: Sql) -> str:
    return f"{quote_string(node.key)} = {quote_string(node.value)}"


# --- CREATE and DROP ---


@print_node.register
def _(node: n.PhysicalColumn, sql: Sql) -> str:
    not_null = _flag("NOT NULL", not node.nullable)
    return joined(quote_name(node.name), sql(node.type), not_null, _string("COMMENT", node.comment))


@print_node.register
def _(node: n.MetadataColumn, sql: Sql) -> str:
    virtual = _flag("VIRTUAL", node.virtual)
    return joined(quote_name(node.name), sql(node.type), "METADATA", _string("FROM", node.key), virtual)


@print_node.register
def _(node: n.ComputedColumn, sql: Sql) -> str:
    return joined(quote_name(node.name), "AS", sql(node.expression), _string("COMMENT", node.comment))


@print_node.register
def _(node: n.WatermarkDef, sql: Sql) -> str:
    return f"WATERMARK FOR {quote_name(node.column)} AS {sql(node.expression)}"


@print_node.register
def _(node: n.CreateTable, sql: Sql) -> str:
    elements = table_elements(node, sql)
    return joined(
        create_head(node),
        f"({', '.join(elements)})" if elements else None,
        _string("COMMENT", node.comment),
        f"WITH ({', '.join(print_node(o, sql) for o in node.options)})" if node.options else None,
        f"AS {sql(node.query)}" if node.query is not None else None,
    )


def table_elements(node: n.CreateTable, sql: Sql) -> list[str]:
    """Columns, watermark and key, each as the text between the commas of CREATE TABLE."""
    columns = [print_node(c, sql) for c in node.columns]
    watermark = [print_node(node.watermark, sql)] if node.watermark else []
    key = [f"PRIMARY KEY {_columns(node.primary_key)} NOT ENFORCED"] if node.primary_key else []
    return columns + watermark + key


def create_head(node: n.CreateTable | n.CreateView | n.CreateFunction) -> str:
    """``CREATE … TABLE [IF NOT EXISTS] name``."""
    replace = isinstance(node, n.CreateView) and node.replace
    kind = {n.CreateTable: "TABLE", n.CreateView: "VIEW", n.CreateFunction: "FUNCTION"}[type(node)]
    exists = _flag("IF NOT EXISTS", node.if_not_exists)
    temporary = _flag("TEMPORARY", node.temporary)
    return joined("CREATE", _flag("OR REPLACE", replace), temporary, kind, exists, name_text(node.name))


def view_head(node: n.CreateView) -> str:
    return joined(create_head(node), _columns(node.columns), _string("COMMENT", node.comment))


def insert_head(node: n.Insert) -> str:
    return joined("INSERT INTO", name_text(node.target), _columns(node.columns))


@print_node.register
def _(node: n.CreateView, sql: Sql) -> str:
    return f"{view_head(node)} AS {sql(node.query)}"


@print_node.register
def _(node: n.CreateFunction, sql: Sql) -> str:
    return joined(create_head(node), _string("AS", node.target), "LANGUAGE", quote_name(node.language))


@print_node.register
def _(node: n.Drop, sql: Sql) -> str:
    exists = _flag("IF EXISTS", node.if_exists)
    return joined("DROP", _flag("TEMPORARY", node.temporary), node.kind, exists, name_text(node.name))


# --- queries and jobs ---


@print_node.register
def _(node: n.Query, sql: Sql) -> str:
    return sql(node.query)


@print_node.register
def _(node: n.Insert, sql: Sql) -> str:
    return f"{insert_head(node)} {sql(node.query)}"


@print_node.register
def _(node: n.StatementSet, sql: Sql) -> str:
    inserts = " ".join(f"{print_node(i, sql)};" for i in node.inserts)
    return f"EXECUTE STATEMENT SET BEGIN {inserts} END"


@print_node.register
def _(node: n.UnitRows, sql: Sql) -> str:
    return f"{unit_rows_head(node, sql)} AS ({sql(node.query)})"


@print_node.register
def _(node: n.UnitTest, sql: Sql) -> str:
    mocks = ", ".join(print_node(mock, sql) for mock in node.mocks)
    return joined(unit_test_head(node, sql), mocks or None, print_node(node.expected, sql))


def unit_test_head(node: n.UnitTest, sql: Sql) -> str:
    at = f"AT TIME {sql(node.at)}" if node.at is not None else None
    return joined("EXECUTE UNIT TEST", name_text(node.name), "FOR", name_text(node.view), at)


def unit_rows_head(node: n.UnitRows, sql: Sql) -> str:
    columns = f"({', '.join(print_node(c, sql) for c in node.columns)})" if node.columns else None
    return joined("EXPECTED" if node.name is None else joined("MOCK", name_text(node.name)), columns)


@print_node.register
def _(node: n.Explain, sql: Sql) -> str:
    return f"EXPLAIN FORMAT {node.format} {node.stage} {print_node(node.statement, sql)}"


@print_node.register
def _(node: n.NameFilter, sql: Sql) -> str:
    like = "ILIKE" if node.any_case else "LIKE"
    return joined(_flag("NOT", node.negated), like, quote_string(node.pattern))


@print_node.register
def _(node: n.Show, sql: Sql) -> str:
    if node.name is None:
        return joined("SHOW", node.what, None if node.names is None else print_node(node.names, sql))
    preposition = "FOR JOB" if node.what == "CHECKPOINTS" else None
    return joined("SHOW", node.what, preposition, name_text(node.name))


@print_node.register
def _(node: n.Describe, sql: Sql) -> str:
    return joined("DESCRIBE", _flag("JOB", node.kind == "JOB"), name_text(node.name))


@print_node.register
def _(node: n.StopJob, sql: Sql) -> str:
    savepoint = joined("WITH SAVEPOINT", quote_string(node.path) if node.path is not None else None)
    job = name_text(node.job)
    return joined("STOP JOB", job, savepoint if node.savepoint else None, _flag("WITH DRAIN", node.drain))


@print_node.register
def _(node: n.CheckpointJob, sql: Sql) -> str:
    return f"CHECKPOINT JOB {name_text(node.job)}"


@print_node.register
def _(node: n.SavepointJob, sql: Sql) -> str:
    path = quote_string(node.path) if node.path is not None else None
    return joined("SAVEPOINT JOB", name_text(node.job), path)


@print_node.register
def _(node: n.Set, sql: Sql) -> str:
    return f"SET {quote_string(node.key)} = {quote_string(node.value or '')}" if node.key is not None else "SET"


@print_node.register
def _(node: n.Reset, sql: Sql) -> str:
    return joined("RESET", quote_string(node.key) if node.key is not None else None)


@print_node.register
def _(node: n.Use, sql: Sql) -> str:
    return f"USE {node.kind} {name_text(node.name)}"
