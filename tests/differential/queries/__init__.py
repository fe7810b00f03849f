"""Random queries of ordinary SQL, each as text of ours, of DuckDB and of Spark.

A relation is a query with columns of names that no other has; larger ones are made of smaller ones. What a query gives
depends on nothing but the rows of its tables: wherever rows are chosen by an order, that order has no ties, or ties of
equal rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.differential.queries.by_time import ByTime
from tests.differential.queries.joins import Joins
from tests.differential.queries.ranked import Ranked
from tests.differential.queries.relations import DUCKDB, SPARK, Query, Relation
from tests.differential.queries.subqueries import Subqueries

__all__ = ["DUCKDB", "SPARK", "Query", "query"]


@dataclass
class Maker(Joins, Subqueries, Ranked, ByTime):
    """Makes relations of all kinds, in one another."""

    def query(self) -> Query:
        if self.choice.random() < 0.3:
            self.views.append((self.view, self.relation(self.choice.choice([1, 1, 2]))))
        depth = self.choice.choice([1, 1, 2, 2, 3])
        return Query(self.relation(depth), tuple(self.views), self.choice.random() < 0.5)

    def relation(self, depth: int) -> Relation:
        if depth == 0:
            return self.base()
        makers: list[Callable[[int], Relation]] = [
            self.grouped, self.grouped, self.grouped, self.grouping_sets, self.distinct, self.joined, self.joined,
            self.joined, self.of_subquery, self.of_subquery, self.top_n, self.top_n, self.limited, self.set_operation,
            self.set_operation, self.chosen, self.of_time, self.of_time, self.lateral, self.lateral, self.aliased,
        ]  # fmt: skip
        return self.choice.choice(makers)(depth)


def query(choice: Random, view: str = "shared") -> Query:
    return Maker(choice, view=view).query()
