"""Which statements define something, and how each is carried out: the registrations of ``define``."""

from __future__ import annotations

from sqlstream.grammar import nodes
from sqlstream.statements.definitions import define

__all__ = ["DEFINITIONS", "define"]

DEFINITIONS = (
    nodes.CreateTable, nodes.CreateView, nodes.CreateMaterializedView, nodes.AlterMaterializedView,
    nodes.CreateFunction, nodes.CreateCatalog, nodes.CreateDatabase, nodes.Drop,
    nodes.AlterTable, nodes.AlterView, nodes.AlterFunction, nodes.AlterCatalog, nodes.AlterDatabase,
    nodes.Use, nodes.Set, nodes.Reset,
)  # fmt: skip
