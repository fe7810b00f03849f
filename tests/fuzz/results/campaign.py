"""Rounds of random queries by seed: what was compared, what was refused, and the differences, reduced."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random

from sqlglot import exp

from sqlstream.grammar import parse_query
from tests.differential.changes import History
from tests.differential.comparing import NoReference, Refused, Rows
from tests.fuzz.results.kinds import kinds_of
from tests.fuzz.results.oracles import NOT_COMPARED, Oracle, Partitioned, Unfiltered, described
from tests.fuzz.results.queries import random_condition, random_query
from tests.fuzz.results.reduction import reduced
from tests.fuzz.results.report import golden
from tests.fuzz.results.tables import random_history, random_tables
from tests.fuzz.results.ways import Case, Duckdb, Finished, Kernels, Stream, planned, sink_of

WAYS = frozenset({"kernels", "finished", "stream"})
_QUERIES_OF_A_JOB = 6
_CHANGES_OF_A_JOB = 20
_SHARE_OF_SPARK = 0.6
_SECONDS = {True: 150.0, False: 45.0}
"""For the reduction of a difference, with Spark and without."""


@dataclass(frozen=True)
class Finding:
    """``oracle`` and what it says of the smallest case, which came of round ``number``."""

    oracle: str
    difference: str
    case: Case
    number: int

    @property
    def text(self) -> str:
        return golden(self.case, f"{self.oracle}, round {self.number}: {self.difference}")


@dataclass
class Campaign:
    """``ways`` are those of WAYS that run queries. ``compared`` counts by oracle, ``kinds`` what is in the queries,
    ``others`` what was not compared and why, ``refused`` the smallest query of each refusal."""

    seed: int
    tell: Callable[[str], object] = print
    ways: frozenset[str] = WAYS
    most: int = 20
    compared: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    seconds: Counter[bool] = field(default_factory=Counter)
    refused: dict[str, str] = field(default_factory=dict)

    def run(self, *, minutes: float | None = None, rounds: int | None = None, first: int = 0) -> None:
        """So many rounds, or for so long; ends sooner with ``most`` findings."""
        end = None if minutes is None else time.monotonic() + 60 * minutes
        for number in count(first):
            if (rounds is not None and number >= first + rounds) or (end is not None and time.monotonic() > end):
                return
            if len(self.findings) >= self.most:
                return
            started, on_spark = time.monotonic(), self._is_turn_of_spark()
            choice = Random(f"{self.seed}/{number}/{on_spark}")
            if on_spark:
                self.job(choice, number)
            else:
                self.query(choice, number)
            self.seconds[on_spark] += time.monotonic() - started  # type: ignore[assignment]

    def _is_turn_of_spark(self) -> bool:
        if len(self.ways) == 1 or "kernels" not in self.ways:
            return "kernels" not in self.ways
        return self.seconds[True] <= _SHARE_OF_SPARK * (self.seconds[True] + self.seconds[False])

    # --- without Spark --------------------------------------------------------------------------------------------

    def query(self, choice: Random, number: int) -> None:
        """One query on the kernels, beside DuckDB; some also divided by a condition."""
        tables = random_tables(choice)
        case = Case(random_query(choice, tables), random_history(choice, tables), choice.randrange(1000))
        if not self._is_executed(case):
            return
        self._compare(Oracle("kernels and DuckDB", Kernels(), Duckdb()), case, number)
        if choice.random() < 0.2 and (condition := self._condition(choice, case)):
            self._compare(Oracle("partitions of kernels", Kernels(), Kernels(), Partitioned(condition)), case, number)

    def _is_executed(self, case: Case) -> bool:
        refusal = _refusal(case)
        if refusal is not None:
            self.others[f"refused: {refusal}"] += 1
            if refusal not in self.refused:
                without_rows = replace(case, past=replace(case.past, acts=()))
                self.refused[refusal] = reduced(without_rows, lambda c: _refusal(c) == refusal, 20).text
            return False
        self.kinds.update(kinds_of(case.text))
        return True

    def _condition(self, choice: Random, case: Case) -> str | None:
        return random_condition(choice, [(f.name, f.type.name) for f in planned(case).root.node.inputs[0].schema])

    # --- on Spark -------------------------------------------------------------------------------------------------

    def job(self, choice: Random, number: int, queries: int = _QUERIES_OF_A_JOB) -> None:
        """Some queries over the same changes: one by one as finished data, together as a stream."""
        tables = random_tables(choice)
        past = _in_few_batches(random_history(choice, tables, _CHANGES_OF_A_JOB), choice)
        seed = choice.randrange(1000)
        cases: list[tuple[Case, Rows]] = []
        while len(cases) < queries:
            case = Case(random_query(choice, tables), past, seed)
            if self._is_executed(case):
                try:
                    sink_of("result", case)
                    cases.append((case, Duckdb().rows(case)))
                except (Refused, NoReference) as error:
                    self.others[f"not on Spark: {error}"] += 1
        with Finished() as finished:
            for case, rows in cases if "finished" in self.ways else ():
                self._compare(Oracle("finished data and DuckDB", finished, Duckdb()), case, number, rows)
                if choice.random() < 0.3 and (condition := self._condition(choice, case)):
                    self._logic(choice, case, condition, finished, number)
        if "stream" in self.ways:
            self._stream(Stream(streaming=choice.random() < 0.3), cases, number)

    def _logic(self, choice: Random, case: Case, condition: str, finished: Finished, number: int) -> None:
        if choice.random() < 0.5:
            oracle = Oracle("partitions of finished data", finished, finished, Partitioned(condition))
        else:
            unfiltered = Unfiltered(condition)
            case = unfiltered.optimized(case)
            plain = replace(case, text=unfiltered(Case(_inner(case.text), case.past)).text)
            oracle = Oracle("NoREC on finished data", finished, finished, lambda _: plain)
        self._compare(oracle, case, number)

    def _stream(self, way: Stream, cases: list[tuple[Case, Rows]], number: int) -> None:
        oracle = Oracle(f"{way.name} and DuckDB", way, Duckdb())
        try:
            actual = way.rows_of([case for case, _ in cases])
        except Exception as error:  # one of them: each alone says which
            self.others[f"jobs that failed: {type(error).__name__}"] += 1
            for case, rows in cases:
                self._compare(oracle, case, number, rows)
            return
        for (case, rows), of_stream in zip(cases, actual, strict=True):
            self.compared[oracle.name] += 1
            if described(rows, of_stream) is not None:
                self._compare(oracle, case, number, rows)

    # --- differences ----------------------------------------------------------------------------------------------

    def _compare(self, oracle: Oracle, case: Case, number: int, expected: Rows | None = None) -> None:
        try:
            difference = oracle.difference(case) if expected is None else oracle.unlike(case, expected)
        except NOT_COMPARED as error:
            self.others[_said(error)] += 1
            if isinstance(error, Refused):
                self._found(oracle, f"{oracle.actual.name} refuses it: {error.code}: {error.message}", case, number)
            return
        self.compared[oracle.name] += 1
        if difference is not None:
            self._found(oracle, difference, case, number)

    def _found(self, oracle: Oracle, difference: str, case: Case, number: int) -> None:
        self.tell(f"# {oracle.name}, round {number}, to be reduced: {difference}\n{case.text}")
        kind = _kind(difference)
        last = difference

        def shows(candidate: Case) -> bool:
            nonlocal last
            try:
                planned(candidate)
                actual = oracle.difference(candidate)
            except Refused as error:
                actual = f"{oracle.actual.name} refuses it: {error.code}: {error.message}"
                if _refusal(candidate) is not None:
                    return False
            except Exception:
                return False
            if actual is None or _kind(actual) != kind:
                return False
            last = actual
            return True

        smallest = reduced(case, shows, _SECONDS["kernels" not in oracle.name])
        self.findings.append(Finding(oracle.name, last, smallest, number))
        self.tell(self.findings[-1].text)


def _refusal(case: Case) -> str | None:
    """Code and message of a query that is not executed, without its names and types."""
    try:
        planned(case)
    except Refused as error:
        return re.sub(r'"[^"]*"|[A-Z]{3,}', "…", f"{error.code} {error.message}")
    return None


def _kind(difference: str) -> str:
    """Of a difference: that a way fails or refuses with an error, or that rows differ."""
    return ":".join(difference.split(":")[:2]) if " fails: " in difference or " refuses it: " in difference else "rows"


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:100]}" if not isinstance(error, Refused) else f"refused: {error.code}"


def _in_few_batches(past: History, choice: Random) -> History:
    """Micro-batches of Spark cost time."""
    size = len(past.changes()) // choice.choice([1, 2]) + 1
    return replace(past, cuts=(size,))


def _inner(text: str) -> str:
    """The query of ``Unfiltered.optimized``."""
    source = parse_query(text).args["from_"].this
    assert isinstance(source, exp.Subquery)
    return text[text.index("FROM (") + 6 : text.rindex(") AS q WHERE ")]
