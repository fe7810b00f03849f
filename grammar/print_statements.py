"""Statements back to text."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.grammar import nodes as n
from sqlstream.grammar.dialect import SqlStream
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
    not_null, virtual = _flag("NOT NULL", not node.nullable), _flag("VIRTUAL", node.virtual)
    typed = joined(quote_name(node.name), sql(node.type), not_null, "METADATA")
    return joined(typed, _string("FROM", node.key), virtual, _string("COMMENT", node.comment))


@print_node.register
def _(node: n.ComputedColumn, sql: Sql) -> str:
    return joined(quote_name(node.name), "AS", sql(node.expression), _string("COMMENT", node.comment))


@print_node.register
def _(node: n.WatermarkDef, sql: Sql) -> str:
    return f"WATERMARK FOR {quote_name(node.column)} AS {sql(node.expression)}"


@print_node.register
def _(node: n.NamedColumn, sql: Sql) -> str:
    return quote_name(node.name)


@print_node.register
def _(node: n.PrimaryKey, sql: Sql) -> str:
    return f"PRIMARY KEY {_columns(node.columns)} NOT ENFORCED"


@print_node.register
def _(node: n.LikeTable, sql: Sql) -> str:
    options = " ".join(f"{o.action} {o.feature}" for o in node.options)
    return joined("LIKE", name_text(node.source), f"({options})" if options else None)


@print_node.register
def _(node: n.CreateTable, sql: Sql) -> str:
    elements = table_elements(node, sql)
    return joined(
        create_head(node),
        f"({', '.join(elements)})" if elements else None,
        _string("COMMENT", node.comment),
        distribution(node),
        partitions(node),
        _with(node.options, sql),
        print_node(node.like, sql) if node.like is not None else None,
        f"AS {sql(node.query)}" if node.query is not None else None,
    )


def distribution(node: n.CreateTable) -> str | None:
    """``DISTRIBUTED …``, if the table is."""
    return None if node.distribution is None else _buckets("DISTRIBUTED", node.distribution)


def _buckets(word: str, told: n.Distribution) -> str:
    columns = joined("BY", told.kind, _columns(told.columns)) if told.columns else None
    return joined(word, columns, f"INTO {told.buckets} BUCKETS" if told.buckets is not None else None)


def partitions(node: n.CreateTable | n.CreateMaterializedView) -> str | None:
    """``PARTITIONED BY (…)``, if the table has partitions."""
    return f"PARTITIONED BY {_columns(node.partitioned_by)}" if node.partitioned_by else None


def _with(options: tuple[n.Option, ...], sql: Sql) -> str | None:
    return f"WITH ({_options(options, sql)})" if options else None


def _options(options: tuple[n.Option, ...], sql: Sql) -> str:
    return ", ".join(print_node(o, sql) for o in options)


def table_elements(node: n.CreateTable, sql: Sql) -> list[str]:
    """Columns, watermark and key, each as the text between the commas of CREATE TABLE."""
    columns = [print_node(c, sql) for c in node.columns]
    watermark = [print_node(node.watermark, sql)] if node.watermark else []
    key = [f"PRIMARY KEY {_columns(node.primary_key)} NOT ENFORCED"] if node.primary_key else []
    return columns + watermark + key


def create_head(node: n.CreateTable | n.CreateView | n.CreateFunction) -> str:
    """``CREATE … TABLE [IF NOT EXISTS] name``."""
    replace = _flag("OR REPLACE", node.replace)
    kind = {n.CreateTable: "TABLE", n.CreateView: "VIEW", n.CreateFunction: "FUNCTION"}[type(node)]
    exists = _flag("IF NOT EXISTS", node.if_not_exists)
    if isinstance(node, n.CreateTable) and node.must_exist:
        return joined("REPLACE TABLE", exists, name_text(node.name))
    temporary = _temporary(node.temporary, isinstance(node, n.CreateFunction) and node.system)
    return joined("CREATE", replace, temporary, kind, exists, name_text(node.name))


def _temporary(temporary: bool, system: bool) -> str | None:
    return "TEMPORARY SYSTEM" if system else _flag("TEMPORARY", temporary)


def view_head(node: n.CreateView) -> str:
    return joined(create_head(node), _columns(node.columns), _string("COMMENT", node.comment))


def insert_head(node: n.Insert, sql: Sql) -> str:
    mode = "INSERT OVERWRITE" if node.overwrite else "INSERT INTO"
    hint = None if node.hint is None else print_node(node.hint, sql)
    return joined(mode, name_text(node.target), hint, partition_text(node.partition, plain_sql), _columns(node.columns))


def on_conflict(node: n.Insert) -> str | None:
    return None if node.conflict is None else f"ON CONFLICT DO {node.conflict}"


def plain_sql(expression: exp.Expression) -> str:
    """An expression on one line."""
    return expression.sql(dialect=SqlStream, comments=False, normalize_functions=False)


def partition_text(values: tuple[n.PartitionValue, ...], sql: Sql) -> str | None:
    """``PARTITION (…)``, if there are values."""
    texts = (quote_name(v.column) + (f" = {sql(v.value)}" if v.value is not None else "") for v in values)
    return f"PARTITION ({', '.join(texts)})" if values else None


@print_node.register
def _(node: n.CreateView, sql: Sql) -> str:
    return f"{view_head(node)} AS {sql(node.query)}"


@print_node.register
def _(node: n.CreateMaterializedView, sql: Sql) -> str:
    elements = materialized_elements(node, sql)
    return joined(
        materialized_head(node),
        f"({', '.join(elements)})" if elements else None,
        _string("COMMENT", node.comment),
        partitions(node),
        _with(node.options, sql),
        freshness(node, sql),
        f"AS {sql(node.query)}",
    )


_REPLACING = {"MATERIALIZED VIEW": "OR REPLACE", "MATERIALIZED TABLE": "OR ALTER", "STREAMING TABLE": "OR REFRESH"}


def materialized_head(node: n.CreateMaterializedView) -> str:
    replace, exists = _flag(_REPLACING[node.kind], node.replace), _flag("IF NOT EXISTS", node.if_not_exists)
    return joined("CREATE", replace, node.kind, exists, name_text(node.name))


def materialized_elements(node: n.CreateMaterializedView, sql: Sql) -> list[str]:
    """Columns and key, each as the text between the commas."""
    key = [f"PRIMARY KEY {_columns(node.primary_key)} NOT ENFORCED"] if node.primary_key else []
    return [*(print_node(column, sql) for column in node.columns), *key]


def freshness(node: n.CreateMaterializedView, sql: Sql) -> str | None:
    """``FRESHNESS = …`` and ``REFRESH_MODE = …``, if they are given."""
    interval = f"FRESHNESS = {sql(node.freshness)}" if node.freshness is not None else None
    mode = f"REFRESH_MODE = {node.refresh_mode}" if node.refresh_mode is not None else None
    return joined(interval, mode) or None


@print_node.register
def _(node: n.CreateFunction, sql: Sql) -> str:
    if node.definition is not None:
        return _defined(node, node.definition, sql)
    return joined(create_head(node), _of_module(node))


def _of_module(node: n.CreateFunction | n.AlterFunction) -> str:
    jars = f"USING {', '.join(f'JAR {quote_string(jar)}' for jar in node.jars)}" if node.jars else ""
    return joined(_string("AS", node.target), "LANGUAGE", quote_name(node.language), jars)


def _defined(node: n.CreateFunction, definition: n.FunctionDefinition, sql: Sql) -> str:
    parameters = ", ".join(_parameter(p, sql) for p in definition.parameters)
    head = f"{create_head(node)} ({parameters})"
    returns = f"RETURNS {sql(definition.returns)}" if definition.returns is not None else ""
    if definition.columns is not None:
        columns = ", ".join(_parameter(c, sql) for c in definition.columns)
        returns = joined("RETURNS TABLE", f"({columns})" if columns else "")
    traits = joined(_flag("NOT DETERMINISTIC", not definition.deterministic), _string("COMMENT", definition.comment))
    language = f"LANGUAGE {quote_name(node.language)}"
    if definition.body is not None:
        return joined(head, returns, language, traits, "RETURN", sql(definition.body))
    text = f"$${node.target}$$" if "$$" not in node.target else quote_string(node.target)
    return joined(head, returns, language, traits, "AS", text)


def _parameter(parameter: n.FunctionParameter, sql: Sql) -> str:
    default = f"DEFAULT {sql(parameter.default)}" if parameter.default is not None else ""
    comment = _string("COMMENT", parameter.comment)
    return joined(quote_name(parameter.name), sql(parameter.type), default, comment)


@print_node.register
def _(node: n.CreateCatalog | n.CreateDatabase, sql: Sql) -> str:
    kind = "CATALOG" if isinstance(node, n.CreateCatalog) else "DATABASE"
    exists, comment = _flag("IF NOT EXISTS", node.if_not_exists), _string("COMMENT", node.comment)
    return joined("CREATE", kind, exists, name_text(node.name), comment, _with(node.options, sql))


@print_node.register
def _(node: n.Drop, sql: Sql) -> str:
    exists, temporary = _flag("IF EXISTS", node.if_exists), _temporary(node.temporary, node.system)
    return joined("DROP", temporary, node.kind, exists, name_text(node.name), _flag("CASCADE", node.cascade))


# --- ALTER ---


@print_node.register
def _(node: n.AlterTable, sql: Sql) -> str:
    exists = _flag("IF EXISTS", node.if_exists)
    return joined("ALTER TABLE", exists, name_text(node.name), print_node(node.change, sql))


@print_node.register
def _(node: n.RenameTo, sql: Sql) -> str:
    return f"RENAME TO {name_text(node.name)}"


@print_node.register
def _(node: n.RenameColumn, sql: Sql) -> str:
    return f"RENAME {quote_name(node.column)} TO {quote_name(node.name)}"


@print_node.register
def _(node: n.SetOptions, sql: Sql) -> str:
    return f"SET ({_options(node.options, sql)})"


@print_node.register
def _(node: n.ResetOptions, sql: Sql) -> str:
    return f"RESET ({', '.join(map(quote_string, node.keys))})"


@print_node.register
def _(node: n.SetComment, sql: Sql) -> str:
    return joined(_string("COMMENT", node.comment))


@print_node.register
def _(node: n.PlacedElement, sql: Sql) -> str:
    after = f"AFTER {quote_name(node.after)}" if node.after is not None else None
    return joined(print_node(node.element, sql), _flag("FIRST", node.first), after)


@print_node.register
def _(node: n.AddElements | n.ModifyElements, sql: Sql) -> str:
    word = "ADD" if isinstance(node, n.AddElements) else "MODIFY"
    return f"{word} ({', '.join(print_node(e, sql) for e in node.elements)})"


@print_node.register
def _(node: n.RetypeColumn, sql: Sql) -> str:
    return f"ALTER COLUMN {quote_name(node.column)} TYPE {sql(node.type)}"


@print_node.register
def _(node: n.DropColumns, sql: Sql) -> str:
    return joined("DROP", _columns(node.columns))


@print_node.register
def _(node: n.DropElement, sql: Sql) -> str:
    return joined("DROP", node.kind, quote_name(node.name) if node.name is not None else None)


@print_node.register
def _(node: n.ChangeDistribution, sql: Sql) -> str:
    return joined("ADD" if node.adds else "MODIFY", _buckets("DISTRIBUTION", node.distribution))


@print_node.register
def _(node: n.ChangePartitions, sql: Sql) -> str:
    texts = [joined(partition_text(p.values, sql), _with(p.options, sql)) for p in node.partitions]
    if node.adds:
        return joined("ADD", _flag("IF NOT EXISTS", node.if_needed), *texts)
    return joined("DROP", _flag("IF EXISTS", node.if_needed), ", ".join(texts))


@print_node.register
def _(node: n.AlterView, sql: Sql) -> str:
    change = print_node(node.rename, sql) if node.rename is not None else None
    query = f"AS {sql(node.query)}" if node.query is not None else None
    return joined("ALTER VIEW", _flag("IF EXISTS", node.if_exists), name_text(node.name), change, query)


@print_node.register
def _(node: n.AlterMaterializedView, sql: Sql) -> str:
    query = f"AS {sql(node.query)}" if node.query is not None else None
    return joined("ALTER", node.kind, name_text(node.name), node.action, query)


@print_node.register
def _(node: n.AlterDatabase | n.AlterCatalog, sql: Sql) -> str:
    kind = "DATABASE" if isinstance(node, n.AlterDatabase) else "CATALOG"
    return joined("ALTER", kind, name_text(node.name), print_node(node.change, sql))


@print_node.register
def _(node: n.Truncate, sql: Sql) -> str:
    return f"TRUNCATE TABLE {name_text(node.name)}"


# --- queries and jobs ---


@print_node.register
def _(node: n.Query, sql: Sql) -> str:
    return sql(node.query)


@print_node.register
def _(node: n.Insert, sql: Sql) -> str:
    return joined(insert_head(node, sql), sql(node.query), on_conflict(node))


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
    if isinstance(node.statement, n.ExecutePlan):
        return f"EXPLAIN PLAN FOR {quote_string(node.statement.path)}"
    stages = ", ".join((node.stage, *node.more))
    return f"EXPLAIN FORMAT {node.format} {stages} {print_node(node.statement, sql)}"


@print_node.register
def _(node: n.CompilePlan, sql: Sql) -> str:
    words = "COMPILE AND EXECUTE PLAN" if node.execute else "COMPILE PLAN"
    exists = _flag("IF NOT EXISTS", node.if_not_exists)
    return joined(words, quote_string(node.path), exists, "FOR", print_node(node.statement, sql))


@print_node.register
def _(node: n.ExecutePlan, sql: Sql) -> str:
    return f"EXECUTE PLAN {quote_string(node.path)}"


@print_node.register
def _(node: n.AlterFunction, sql: Sql) -> str:
    kept = joined(_temporary(node.temporary, node.system), "FUNCTION", _flag("IF EXISTS", node.if_exists))
    return joined("ALTER", kept, name_text(node.name), _of_module(node))


@print_node.register
def _(node: n.NameFilter, sql: Sql) -> str:
    like = "ILIKE" if node.any_case else "LIKE"
    return joined(_flag("NOT", node.negated), like, quote_string(node.pattern))


_PREPOSITIONS = {"CHECKPOINTS": "FOR JOB", "COLUMNS": "FROM", "PARTITIONS": None}


@print_node.register
def _(node: n.Show, sql: Sql) -> str:
    filtered = print_node(node.names, sql) if node.names is not None else None
    if node.name is None:
        return joined("SHOW", node.what, filtered)
    created = node.what.startswith("CREATE ")
    preposition = None if created else _PREPOSITIONS.get(node.what, "FROM")
    partition = partition_text(node.partition, sql)
    return joined("SHOW", node.what, preposition, name_text(node.name), partition, filtered)


@print_node.register
def _(node: n.Describe, sql: Sql) -> str:
    kind = None if node.kind == "TABLE" else node.kind
    return joined("DESCRIBE", kind, _flag("EXTENDED", node.extended), name_text(node.name))


@print_node.register
def _(node: n.DescribeQuery, sql: Sql) -> str:
    return f"DESCRIBE QUERY {sql(node.query)}"


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
