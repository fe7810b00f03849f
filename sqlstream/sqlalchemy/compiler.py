"""SQLAlchemy's trees as text of the dialect. What it has and the dialect has not is a CompileError."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import exc, util
from sqlalchemy.sql import compiler, sqltypes, type_api
from sqlalchemy.types import TypeEngine, UserDefinedType

from sqlstream.arguments import literal
from sqlstream.grammar.quoting import quote_name, quote_string
from sqlstream.planner.catalog import Column
from sqlstream.types import DataType


class SqlStreamIdentifierPreparer(compiler.IdentifierPreparer):
    """Quotes names that are not plain with backticks. A schema may have two parts, ``catalog.database``."""

    def __init__(self, dialect: Any, **kw: Any) -> None:
        super().__init__(dialect, initial_quote="`", final_quote="`", escape_quote="`", **kw)

    def _requires_quotes(self, value: str) -> bool:
        return quote_name(value) != value or value.lower() != value

    def quote_schema(self, schema: str, force: Any = None) -> str:
        """A schema as ``catalog.database``, each part quoted where it must be."""
        return ".".join(self.quote(name) for name in schema.split("."))


class SqlStreamCompiler(compiler.SQLCompiler):
    """Compiles SQLAlchemy's queries and INSERT to SQL."""

    def visit_column(  # type: ignore[override] # what else it takes goes on as it is
        self, column: Any, add_to_result_map: Any = None, include_table: bool = True, **kw: Any
    ) -> str:
        """The SQL of a column as ``t.c``. The schema is left out, because in ``FROM d.t`` the table's name is ``t``."""
        text = super().visit_column(column, add_to_result_map, include_table, **kw)
        table = column.table
        if table is None or not include_table or not table.named_with_column:
            return text
        schema = self.preparer.schema_for_object(table)
        return text.removeprefix(f"{self.preparer.quote_schema(schema)}.") if schema else text

    def limit_clause(self, select: Any, **kw: Any) -> str:
        """The clauses LIMIT and OFFSET."""
        text = ""
        if select._limit_clause is not None:
            text += "\n LIMIT " + self.process(select._limit_clause, **kw)
        if select._offset_clause is not None:
            text += "\n OFFSET " + self.process(select._offset_clause, **kw)
        return text

    def for_update_clause(self, select: Any, **kw: Any) -> str:
        """Raises CompileError for FOR UPDATE, because there are no locks."""
        raise exc.CompileError("sqlstream has no locks: leave out with_for_update()")

    def visit_empty_set_expr(self, element_types: Any, **kw: Any) -> str:
        """A query without rows, for ``IN ()``."""
        nulls = ", ".join("NULL" for _ in (element_types or [None]))
        return f"SELECT {nulls} WHERE 1 <> 1"

    def visit_empty_set_op_expr(self, type_: Any, expand_op: Any, **kw: Any) -> str:
        """A query without rows, for ``IN ()``."""
        return self.visit_empty_set_expr(type_, **kw)

    def render_literal_value(self, value: Any, type_: Any) -> str:
        """The SQL literal for a value, the same that a parameter with this value is replaced by."""
        processor = type_.dialect_impl(self.dialect).bind_processor(self.dialect)
        if value is None and not type_.should_evaluate_none:
            return "NULL"
        return literal(processor(value) if processor is not None else value)

    def visit_regexp_match_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        """The condition ``RLIKE``."""
        return self._rlike(binary, "RLIKE", **kw)

    def visit_not_regexp_match_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        """The condition ``NOT RLIKE``."""
        return self._rlike(binary, "NOT RLIKE", **kw)

    def _rlike(self, binary: Any, word: str, **kw: Any) -> str:
        if binary.modifiers["flags"] is not None:
            raise exc.CompileError("sqlstream takes flags of a regular expression inside it: '(?i)…'")
        return f"{self.process(binary.left, **kw)} {word} {self.process(binary.right, **kw)}"

    def visit_regexp_replace_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        """The call of ``REGEXP_REPLACE``; CompileError for flags, which must be part of the pattern."""
        if binary.modifiers["flags"] is not None:
            raise exc.CompileError("sqlstream takes flags of a regular expression inside it: '(?i)…'")
        return f"REGEXP_REPLACE({self.process(binary.left, **kw)}, {self.process(binary.right, **kw)})"

    def visit_ilike_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        """The condition ``ILIKE``."""
        return self._ilike(binary, "ILIKE", **kw)

    def visit_not_ilike_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        """The condition ``NOT ILIKE``."""
        return self._ilike(binary, "NOT ILIKE", **kw)

    def _ilike(self, binary: Any, word: str, **kw: Any) -> str:
        escape = binary.modifiers.get("escape")
        behind = "" if escape is None else f" ESCAPE {quote_string(escape)}"
        return f"{self.process(binary.left, **kw)} {word} {self.process(binary.right, **kw)}{behind}"

    def visit_now_func(self, fn: Any, **kw: Any) -> str:
        """The expression for the current time."""
        return "CURRENT_TIMESTAMP()"

    def returning_clause(self, stmt: Any, returning_cols: Any, **kw: Any) -> str:
        """Raises CompileError, because there is no RETURNING."""
        raise exc.CompileError("sqlstream has no RETURNING: give each row its key")

    def visit_update(self, update_stmt: Any, *args: Any, **kw: Any) -> str:
        """Raises CompileError for UPDATE, because rows are not updated in place."""
        raise exc.CompileError("sqlstream changes no rows: INSERT into a table with a PRIMARY KEY replaces them")

    def visit_delete(self, delete_stmt: Any, *args: Any, **kw: Any) -> str:
        """Returns TRUNCATE TABLE for a DELETE of all rows; raises CompileError for one with a condition."""
        if delete_stmt._where_criteria:
            raise exc.CompileError("sqlstream deletes no single rows: delete() without where() removes all")
        super().visit_delete(delete_stmt, *args, **kw)  # which notes what is compiled
        return f"TRUNCATE TABLE {self.preparer.format_table(delete_stmt.table)}"


class SqlStreamDDLCompiler(compiler.DDLCompiler):
    """Compiles CREATE TABLE with the options of its connector; constraints other than PRIMARY KEY are refused."""

    def get_column_specification(self, column: Any, **kw: Any) -> str:
        """A column of CREATE TABLE: name, type, NOT NULL and comment."""
        name = self.preparer.format_column(column)
        comment = "" if column.comment is None else f" COMMENT {quote_string(column.comment)}"
        if column.identity is not None:
            raise exc.CompileError("sqlstream has no IDENTITY columns: give each row its key")
        if column.server_default is not None and column.computed is None:
            raise exc.CompileError("sqlstream columns have no server_default: write default=")
        if column.computed is not None:
            text = self.sql_compiler.process(column.computed.sqltext, include_table=False, literal_binds=True)
            return f"{name} AS {text}{comment}"
        kind = self.dialect.type_compiler_instance.process(column.type, type_expression=column)
        return f"{name} {kind}{'' if column.nullable else ' NOT NULL'}{comment}"

    def create_table_constraints(self, table: Any, *args: Any, **kw: Any) -> str:
        """The primary key and the watermark of CREATE TABLE."""
        lines = [super().create_table_constraints(table, *args, **kw)]
        watermark = table.dialect_options["sqlstream"]["watermark"]
        if watermark is not None:
            column, expression = watermark
            lines.append(f"WATERMARK FOR {self.preparer.quote(column)} AS {expression}")
        return ", \n\t".join(line for line in lines if line)

    def visit_primary_key_constraint(self, constraint: Any, **kw: Any) -> str:
        """The clause PRIMARY KEY … NOT ENFORCED."""
        if not len(constraint):
            return ""
        return f"{super().visit_primary_key_constraint(constraint, **kw)} NOT ENFORCED"

    def visit_unique_constraint(self, constraint: Any, **kw: Any) -> str:
        """Raises CompileError, because there is no UNIQUE."""
        raise exc.CompileError("sqlstream has no UNIQUE: a PRIMARY KEY replaces rows of its key")

    def visit_foreign_key_constraint(self, constraint: Any, **kw: Any) -> str:
        """Raises CompileError, because there are no foreign keys."""
        raise exc.CompileError("sqlstream has no foreign keys")

    def visit_check_constraint(self, constraint: Any, **kw: Any) -> str:
        """Raises CompileError, because there is no CHECK."""
        raise exc.CompileError("sqlstream has no CHECK: filter rows where they are read")

    visit_table_or_column_check_constraint = visit_check_constraint

    def post_create_table(self, table: Any) -> str:
        """The clauses after the columns of CREATE TABLE: comment, partitions and options."""
        said = table.dialect_options["sqlstream"]
        by_default: Mapping[str, str] = self.dialect.table_options  # type: ignore[attr-defined] # ours
        options: Mapping[str, str] = said["with"] or by_default
        text = "" if table.comment is None else f"\nCOMMENT {quote_string(table.comment)}"
        if said["partitioned_by"]:
            text += f"\nPARTITIONED BY ({', '.join(map(self.preparer.quote, said['partitioned_by']))})"
        pairs = (f"{quote_string(key)} = {quote_string(str(value))}" for key, value in options.items())
        return f"{text}\nWITH ({', '.join(pairs)})"

    def visit_set_table_comment(self, create: Any, **kw: Any) -> str:
        """Raises CompileError, because only CREATE TABLE sets comments."""
        raise exc.CompileError("sqlstream tables have their comments from CREATE TABLE: write comment=")

    def visit_drop_table_comment(self, drop: Any, **kw: Any) -> str:
        """Raises CompileError, because only CREATE TABLE sets comments."""
        return self.visit_set_table_comment(drop)

    def visit_set_column_comment(self, create: Any, **kw: Any) -> str:
        """Raises CompileError, because only CREATE TABLE sets comments."""
        return self.visit_set_table_comment(create)

    def visit_drop_column_comment(self, drop: Any, **kw: Any) -> str:
        """Raises CompileError, because only CREATE TABLE sets comments."""
        return self.visit_set_table_comment(drop)

    def visit_create_index(self, create: Any, *args: Any, **kw: Any) -> str:
        """Returns an empty text, which is not executed, and warns: there are no indexes, but libraries that create
        tables also create some.

        Raises CompileError for a unique index, which would be a constraint.
        """
        if create.element.unique:
            return self.visit_unique_constraint(create.element)
        util.warn(f'sqlstream has no indexes: "{create.element.name}" is left out')
        return ""

    def visit_drop_index(self, drop: Any, **kw: Any) -> str:
        """Returns an empty text, which is not executed, because there are no indexes."""
        return ""

    def visit_create_sequence(self, create: Any, *args: Any, **kw: Any) -> str:
        """Raises CompileError, because there are no sequences."""
        raise exc.CompileError("sqlstream has no sequences")

    def visit_create_schema(self, create: Any, **kw: Any) -> str:
        """The statement CREATE DATABASE."""
        softly = getattr(create, "if_not_exists", False)  # SQLAlchemy 1.4 has neither
        return f"CREATE DATABASE {'IF NOT EXISTS ' if softly else ''}{self._database(create)}"

    def visit_drop_schema(self, drop: Any, **kw: Any) -> str:
        """The statement DROP DATABASE."""
        cascade = " CASCADE" if drop.cascade else ""
        softly = getattr(drop, "if_exists", False)
        return f"DROP DATABASE {'IF EXISTS ' if softly else ''}{self._database(drop)}{cascade}"

    def _database(self, statement: Any) -> str:
        return self.preparer.quote_schema(statement.element)


# --- Types in CREATE TABLE and CAST ----------------------------------------------------------------------------


# ruff: noqa: N802, N815 — SQLAlchemy looks methods up by these names


_LARGEST_DECIMAL = "DECIMAL(38, 18)"


class SqlStreamTypeCompiler(compiler.GenericTypeCompiler):
    """Compiles types; those of other databases with the same meaning become this dialect's."""

    def visit_INTEGER(self, type_: Any, **kw: Any) -> str:
        """The type INT."""
        return "INT"

    def visit_TINYINT(self, type_: Any, **kw: Any) -> str:
        """The type TINYINT."""
        return "TINYINT"

    def visit_FLOAT(self, type_: Any, **kw: Any) -> str:
        """The type for Python's floats: DOUBLE, or FLOAT for at most 24 binary digits."""
        return "FLOAT" if (type_.precision or 53) <= 24 else "DOUBLE"

    def visit_REAL(self, type_: Any, **kw: Any) -> str:
        """The type FLOAT, of 32 bits."""
        return "FLOAT"

    def visit_DOUBLE(self, type_: Any, **kw: Any) -> str:
        """The type DOUBLE, of 64 bits."""
        return "DOUBLE"

    visit_DOUBLE_PRECISION = visit_DOUBLE

    def visit_NUMERIC(self, type_: Any, **kw: Any) -> str:
        """The type DECIMAL, the largest one without a precision."""
        if type_.precision is None:
            return _LARGEST_DECIMAL
        return f"DECIMAL({type_.precision}, {type_.scale or 0})"

    visit_DECIMAL = visit_NUMERIC

    def visit_VARCHAR(self, type_: Any, **kw: Any) -> str:
        """The type VARCHAR with a length, else STRING."""
        return f"VARCHAR({type_.length})" if type_.length else "STRING"

    visit_NVARCHAR = visit_VARCHAR

    def visit_CHAR(self, type_: Any, **kw: Any) -> str:
        """The type CHAR with a length, else STRING."""
        return f"CHAR({type_.length})" if type_.length else "STRING"

    visit_NCHAR = visit_CHAR

    def visit_TEXT(self, type_: Any, **kw: Any) -> str:
        """The type STRING, for texts."""
        return "STRING"

    visit_CLOB = visit_NCLOB = visit_TEXT
    visit_JSON = visit_TEXT  # SQLAlchemy writes and reads the text

    def visit_BLOB(self, type_: Any, **kw: Any) -> str:
        """The type BINARY, for bytes."""
        return "BINARY"

    visit_BINARY = visit_VARBINARY = visit_BLOB

    def visit_TIMESTAMP(self, type_: Any, **kw: Any) -> str:
        """The type of timestamps: with a time zone TIMESTAMP_LTZ, an instant, else TIMESTAMP_NTZ, a wall-clock time."""
        return "TIMESTAMP_LTZ" if type_.timezone else "TIMESTAMP_NTZ"

    visit_DATETIME = visit_TIMESTAMP

    def visit_TIME(self, type_: Any, **kw: Any) -> str:
        """The type TIME."""
        return "TIME"

    def visit_INTERVAL(self, type_: Any, **kw: Any) -> str:
        """The type INTERVAL DAY TO SECOND."""
        return "INTERVAL DAY TO SECOND"

    def visit_UUID(self, type_: Any, **kw: Any) -> str:
        """The type STRING, because there is no type for UUIDs."""
        return "STRING"

    def visit_VARIANT(self, type_: Any, **kw: Any) -> str:
        """The type VARIANT."""
        return "VARIANT"

    def visit_ARRAY(self, type_: Any, **kw: Any) -> str:
        """The type ARRAY, nested for several dimensions."""
        text = self.process(type_.item_type, **kw)
        for _ in range(type_.dimensions or 1):
            text = f"ARRAY<{text}>"
        return text

    def visit_MAP(self, type_: Any, **kw: Any) -> str:
        """The type MAP of keys and values."""
        return f"MAP<{self.process(type_.key, **kw)}, {self.process(type_.value, **kw)}>"

    def visit_STRUCT(self, type_: Any, **kw: Any) -> str:
        """The type STRUCT of named fields."""
        fields = (f"{quote_name(name)}: {self.process(kind, **kw)}" for name, kind in type_.fields)
        return f"STRUCT<{', '.join(fields)}>"


# --- types of SQLAlchemy that only some databases have, and its types for ours -----------------------------------


class TINYINT(sqltypes.Integer):
    """A whole number of one byte."""

    __visit_name__ = "TINYINT"


class INTERVAL(type_api.NativeForEmulated, sqltypes._AbstractInterval):
    """A span of time; ``timedelta`` in Python."""

    __visit_name__ = "INTERVAL"
    native = True

    @classmethod
    def adapt_emulated_to_native(cls, impl: Any, **kw: Any) -> INTERVAL:
        """Returns this type where a table is declared with SQLAlchemy's generic ``Interval``. SQLAlchemy calls it."""
        return cls()


class CalendarDate(sqltypes.Date):
    """The type DATE. It also accepts ``datetime`` values and drops their time of day, with which Spark would
    compare.
    """

    def bind_processor(self, dialect: Any) -> Callable[[Any], Any]:
        """Returns the function that SQLAlchemy applies to parameters of this type: it turns a ``datetime`` into its
        date.
        """
        return lambda value: value.date() if isinstance(value, datetime) else value


class MAP(UserDefinedType[dict[Any, Any]]):
    """The type ``MAP<key, value>``; a dictionary in Python."""

    __visit_name__ = "MAP"
    cache_ok = True

    def __init__(self, key: Any, value: Any) -> None:
        self.key = sqltypes.to_instance(key)
        self.value = sqltypes.to_instance(value)


class STRUCT(UserDefinedType[dict[str, Any]]):
    """The type ``STRUCT<name: type, …>``; a dictionary in Python."""

    __visit_name__ = "STRUCT"
    cache_ok = True

    def __init__(self, fields: Mapping[str, Any] | tuple[tuple[str, Any], ...]) -> None:
        given = fields.items() if isinstance(fields, Mapping) else fields
        self.fields = tuple((name, sqltypes.to_instance(kind)) for name, kind in given)


class VARIANT(UserDefinedType[Any]):
    """The type VARIANT, for values of any type."""

    __visit_name__ = "VARIANT"
    cache_ok = True


class DOUBLE(sqltypes.Float):  # type: ignore[type-arg] # SQLAlchemy 1.4 has no arguments there
    """The type DOUBLE for SQLAlchemy 1.4, which lacks it."""

    __visit_name__ = "DOUBLE"


_SIMPLE: dict[str, type[TypeEngine[Any]]] = {
    "BOOLEAN": sqltypes.BOOLEAN,
    "TINYINT": TINYINT,
    "SMALLINT": sqltypes.SMALLINT,
    "INT": sqltypes.INTEGER,
    "BIGINT": sqltypes.BIGINT,
    "FLOAT": sqltypes.REAL,
    "DOUBLE": getattr(sqltypes, "DOUBLE", DOUBLE),
    "STRING": sqltypes.VARCHAR,
    "BINARY": sqltypes.BINARY,
    "DATE": sqltypes.DATE,
    "TIME": sqltypes.TIME,
    "INTERVAL": INTERVAL,
    "VARIANT": VARIANT,
    "TIMESTAMP_NTZ": sqltypes.TIMESTAMP,
}


def alchemy_type(type_: DataType) -> TypeEngine[Any]:
    """SQLAlchemy's type for a type of this dialect; NullType if only Spark knows the type."""
    match type_.name, type_.args:
        case "DECIMAL", (int(precision), int(scale)):
            return sqltypes.DECIMAL(precision, scale)
        case "TIMESTAMP", _:
            return sqltypes.TIMESTAMP(timezone=True)
        case "ARRAY", (DataType() as element,):
            return _array(element)
        case "MAP", (DataType() as key, DataType() as value):
            return MAP(alchemy_type(key), alchemy_type(value))
        case "STRUCT", _:
            return STRUCT(tuple((name, alchemy_type(kind)) for name, kind in type_.fields()))
    simple = _SIMPLE.get(type_.name)
    return sqltypes.NullType() if simple is None else simple()


def _array(element: DataType) -> TypeEngine[Any]:
    """SQLAlchemy says the depth of an array of arrays as a number."""
    depth = 1
    while element.name == "ARRAY" and isinstance(element.args[0], DataType):
        element, depth = element.args[0], depth + 1
    return sqltypes.ARRAY(alchemy_type(element), dimensions=depth)


def type_of_column(column: Column) -> TypeEngine[Any]:
    """SQLAlchemy's type of a column, with its declared length."""
    declared = (column.declared or "").upper()
    name, _, rest = declared.partition("(")
    length = rest.rstrip(")")
    if column.type.name == "STRING" and name in ("CHAR", "VARCHAR") and length.isdigit():
        kind = sqltypes.CHAR if name == "CHAR" else sqltypes.VARCHAR
        return kind(int(length))
    return alchemy_type(column.type)
