"""Types of SQLAlchemy as CREATE TABLE and CAST spell them."""

# ruff: noqa: N802, N815 — SQLAlchemy looks methods up by these names

from __future__ import annotations

from typing import Any

from sqlalchemy.sql import compiler

from sqlstream.grammar.quoting import quote_name

_LARGEST_DECIMAL = "DECIMAL(38, 18)"


class SqlStreamTypeCompiler(compiler.GenericTypeCompiler):
    """Those of other databases that mean the same are spelled as ours."""

    def visit_INTEGER(self, type_: Any, **kw: Any) -> str:
        return "INT"

    def visit_TINYINT(self, type_: Any, **kw: Any) -> str:
        return "TINYINT"

    def visit_FLOAT(self, type_: Any, **kw: Any) -> str:
        """Python's floats are DOUBLE, unless fewer binary digits are asked for."""
        return "FLOAT" if (type_.precision or 53) <= 24 else "DOUBLE"

    def visit_REAL(self, type_: Any, **kw: Any) -> str:
        return "FLOAT"

    def visit_DOUBLE(self, type_: Any, **kw: Any) -> str:
        return "DOUBLE"

    visit_DOUBLE_PRECISION = visit_DOUBLE

    def visit_NUMERIC(self, type_: Any, **kw: Any) -> str:
        if type_.precision is None:
            return _LARGEST_DECIMAL
        return f"DECIMAL({type_.precision}, {type_.scale or 0})"

    visit_DECIMAL = visit_NUMERIC

    def visit_VARCHAR(self, type_: Any, **kw: Any) -> str:
        return f"VARCHAR({type_.length})" if type_.length else "STRING"

    visit_NVARCHAR = visit_VARCHAR

    def visit_CHAR(self, type_: Any, **kw: Any) -> str:
        return f"CHAR({type_.length})" if type_.length else "STRING"

    visit_NCHAR = visit_CHAR

    def visit_TEXT(self, type_: Any, **kw: Any) -> str:
        return "STRING"

    visit_CLOB = visit_NCLOB = visit_TEXT
    visit_JSON = visit_TEXT  # SQLAlchemy writes and reads the text

    def visit_BLOB(self, type_: Any, **kw: Any) -> str:
        return "BINARY"

    visit_BINARY = visit_VARBINARY = visit_BLOB

    def visit_TIMESTAMP(self, type_: Any, **kw: Any) -> str:
        """With a zone an instant, without one what a clock shows."""
        return "TIMESTAMP_LTZ" if type_.timezone else "TIMESTAMP_NTZ"

    visit_DATETIME = visit_TIMESTAMP

    def visit_TIME(self, type_: Any, **kw: Any) -> str:
        return "TIME"

    def visit_INTERVAL(self, type_: Any, **kw: Any) -> str:
        return "INTERVAL DAY TO SECOND"

    def visit_UUID(self, type_: Any, **kw: Any) -> str:
        return "STRING"

    def visit_VARIANT(self, type_: Any, **kw: Any) -> str:
        return "VARIANT"

    def visit_ARRAY(self, type_: Any, **kw: Any) -> str:
        text = self.process(type_.item_type, **kw)
        for _ in range(type_.dimensions or 1):
            text = f"ARRAY<{text}>"
        return text

    def visit_MAP(self, type_: Any, **kw: Any) -> str:
        return f"MAP<{self.process(type_.key, **kw)}, {self.process(type_.value, **kw)}>"

    def visit_STRUCT(self, type_: Any, **kw: Any) -> str:
        fields = (f"{quote_name(name)}: {self.process(kind, **kw)}" for name, kind in type_.fields)
        return f"STRUCT<{', '.join(fields)}>"
