"""What must be equal: the ways to run a query, and a query and another one that has its rows by the rules of logic.

The second kind needs no other engine, so it judges functions that no other has: ternary logic partitioning and NoREC,
as in SQLancer (Rigger and Su, OOPSLA 2020 and ESEC/FSE 2020).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tests.differential.comparing import NoReference, Refused, Rows
from tests.differential.without_spark import NotHere
from tests.fuzz.results.ways import Case, Way

NOT_COMPARED = (Refused, NoReference, NotHere)


@dataclass(frozen=True)
class Oracle:
    """``actual`` runs a query, and ``expected`` what ``derived`` makes of it."""

    name: str
    actual: Way
    expected: Way
    derived: Callable[[Case], Case] = lambda case: case

    def difference(self, case: Case) -> str | None:
        """What is wrong, None for nothing; one of NOT_COMPARED where a way does not run the query."""
        try:
            expected = self.expected.rows(self.derived(case))
        except NOT_COMPARED:
            raise
        except Exception as error:
            return _failure(f"{self.expected.name}, which tell what is right,", error)
        return self.unlike(case, expected)

    def unlike(self, case: Case, expected: Rows) -> str | None:
        try:
            actual = self.actual.rows(case)
        except NOT_COMPARED:
            raise
        except Exception as error:
            return _failure(self.actual.name, error)
        return described(expected, actual)


def _failure(name: str, error: Exception) -> str:
    return f"{name} fails: {type(error).__name__}: {str(error).splitlines()[0][:300]}"


def described(expected: Rows, actual: Rows) -> str | None:
    if actual == expected:
        return None
    return "; ".join([*_counted("missing", expected - actual), *_counted("too many", actual - expected)])


def _counted(words: str, rows: Rows) -> Iterator[str]:
    if rows:
        yield f"{words}: {', '.join(f'{row}' + (f' {n} times' if n > 1 else '') for row, n in rows.items())}"


@dataclass(frozen=True)
class Partitioned:
    """The rows of a query, divided by whether a condition is true, false or unknown: q WHERE p UNION ALL q WHERE NOT p
    UNION ALL q WHERE p IS NULL."""

    condition: str

    def __call__(self, case: Case) -> Case:
        p = self.condition
        parts = (f"SELECT * FROM ({case.text}) AS q WHERE {test}" for test in (p, f"NOT ({p})", f"({p}) IS NULL"))
        return replace(case, text=" UNION ALL ".join(parts))


@dataclass(frozen=True)
class Unfiltered:
    """NoREC: rows chosen by a condition that nothing can make use of to find them sooner, since it is a value."""

    condition: str

    def __call__(self, case: Case) -> Case:
        columns = f"SELECT *, ({self.condition}) IS TRUE AS chosen FROM ({case.text}) AS q"
        return replace(case, text=f"SELECT COUNT(CASE WHEN chosen THEN 1 END) AS n FROM ({columns}) AS c")

    def optimized(self, case: Case) -> Case:
        return replace(case, text=f"SELECT COUNT(*) AS n FROM ({case.text}) AS q WHERE {self.condition}")
