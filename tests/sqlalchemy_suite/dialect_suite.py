"""All tests of SQLAlchemy's suite, over tables without the constraints that there are not."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, ForeignKey, Integer, MetaData, String, Table
from sqlalchemy import Column as _Column
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CheckConstraint, ForeignKeyConstraint, UniqueConstraint
from sqlalchemy.sql.ddl import SchemaGenerator
from sqlalchemy.testing.provision import temp_table_keyword_args
from sqlalchemy.testing.suite import *  # noqa: F403
from sqlalchemy.testing.suite import CTETest as _CTETest
from sqlalchemy.testing.suite import JoinTest as _JoinTest


@compiles(CheckConstraint, "sqlstream")
@compiles(ForeignKeyConstraint, "sqlstream")
@compiles(UniqueConstraint, "sqlstream")
def _left_out(element: Any, compiler: Any, **kw: Any) -> None:
    """The dialect refuses them; tables of the suite have them beside what is tested."""


SchemaGenerator.visit_index = lambda self, index, create_ok=False: None  # type: ignore[method-assign]


@temp_table_keyword_args.for_db("sqlstream")
def _temporary(cfg: Any, eng: Any) -> dict[str, Any]:
    return {"prefixes": ["TEMPORARY"]}


class CTETest(_CTETest):  # type: ignore[no-redef]
    """Its table without a foreign key, from which a column has its type there."""

    @classmethod
    def define_tables(cls, metadata: MetaData) -> None:
        for name in ("some_table", "some_other_table"):
            Table(name, metadata, Column("id", Integer, primary_key=True), Column("data", String(50)),
                  Column("parent_id", Integer))  # fmt: skip


class JoinTest(_JoinTest):  # type: ignore[no-redef]
    """The type of the column with a foreign key is written down; the key itself, which tells how tables are joined, is
    known to SQLAlchemy alone."""

    @classmethod
    def define_tables(cls, metadata: MetaData) -> None:
        Table("a", metadata, Column("id", Integer, primary_key=True))
        Table(
            "b",
            metadata,
            Column("id", Integer, primary_key=True),
            _Column("a_id", Integer, ForeignKey("a.id"), nullable=False),
        )
