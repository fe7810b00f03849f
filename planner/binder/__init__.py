"""The binder: resolves names and types of statements, checks what is legal, and makes plans and catalog entries."""

from sqlstream.planner.binder.context import BinderSettings
from sqlstream.planner.binder.statements import (
    CORE_MODULE,
    bind_insert,
    bind_query,
    bind_statement,
    bind_statement_set,
    bind_view,
    refuse_statement,
)
from sqlstream.planner.binder.tables import bind_table

__all__ = [
    "CORE_MODULE", "BinderSettings", "bind_insert", "bind_query", "bind_statement", "bind_statement_set", "bind_table",
    "bind_view", "refuse_statement",
]  # fmt: skip
