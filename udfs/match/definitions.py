"""DEFINE: the conditions on rows that are mapped to a variable, taken apart by what they read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.expressions.evaluation import is_true
from sqlstream.udfs.expressions.tree import And, Column, Expression
from sqlstream.udfs.match.automaton import Automaton
from sqlstream.udfs.match.line import Flags, Line
from sqlstream.udfs.match.operands import Aggregated, Current, Operand
from sqlstream.udfs.match.registers import Registers


@dataclass(frozen=True)
class Definition:
    """``condition`` over the values of operands, by name."""

    variable: str
    condition: Expression


@dataclass(frozen=True)
class Definitions:
    """The conditions of a pattern. Variables without one take every row."""

    automaton: Automaton
    definitions: tuple[Definition, ...]
    operands: tuple[Operand, ...]
    input: pa.Schema

    def of_rows(self, line: Line) -> Flags:
        """By variable and row, as far as the row and its neighbours tell: whether the row may be mapped to it."""
        fits = np.ones((len(self.automaton.names), len(line)), np.bool_)
        rows = np.arange(len(line))
        read = {column.name for conditions in self._of_rows.values() for c in conditions for column in c.columns}
        columns = {
            Column(operand.name): line.values(operand.column, line.shifted(rows, operand.shift), operand.absent)
            for operand in self.operands
            if isinstance(operand, Current) and operand.name in read
        }
        for variable, conditions in self._of_rows.items():
            for condition in conditions:
                fits[self.automaton.names.index(variable)] &= is_true(condition, columns)
        return fits

    @cached_property
    def of_matches(self) -> dict[str, Expression]:
        """What else must be true, by variable: conditions that read rows which were mapped before."""
        conjuncts = {name: tuple(c for c in all_of if not self._is_of_rows(c)) for name, all_of in self._conjuncts}
        return {name: conditions[0] if len(conditions) == 1 else And(conditions)
                for name, conditions in conjuncts.items() if conditions}  # fmt: skip

    @cached_property
    def _of_rows(self) -> dict[str, list[Expression]]:
        return {name: [c for c in conjuncts if self._is_of_rows(c)] for name, conjuncts in self._conjuncts}

    @cached_property
    def _conjuncts(self) -> list[tuple[str, tuple[Expression, ...]]]:
        used = (d for d in self.definitions if d.variable in self.automaton.names)
        return [(d.variable, tuple(_conjuncts(d.condition))) for d in used]

    def _is_of_rows(self, condition: Expression) -> bool:
        return all(isinstance(self._by_name[column.name], Current) for column in condition.columns)

    @cached_property
    def _by_name(self) -> dict[str, Operand]:
        return {operand.name: operand for operand in self.operands}

    @cached_property
    def reads(self) -> dict[str, dict[Column, Operand]]:
        """What the conditions ``of_matches`` read, by variable: operands by the columns that stand for them."""
        return {
            variable: {c: self._by_name[c.name] for c in sorted(condition.columns, key=lambda c: c.name)}
            for variable, condition in self.of_matches.items()
        }

    @cached_property
    def registers(self) -> Registers:
        return Registers(self.automaton, [o for read in self.reads.values() for o in read.values()])

    @cached_property
    def reads_start(self) -> bool:
        """True where a condition reads all rows of the match from the first one on."""
        operands = (o for read in self.reads.values() for o in read.values())
        return any(
            not isinstance(o, Current) and o.variable is None and (isinstance(o, Aggregated) or not o.last or o.offset)
            for o in operands
        )

    @cached_property
    def is_read(self) -> Flags:
        """By place and variable: whether conditions on rows behind the place read rows of the variable."""
        names = self.automaton.names
        reads = np.zeros((len(names), len(names)), np.bool_)
        for variable, read in self.reads.items():
            for operand in read.values():
                if not isinstance(operand, Current) and operand.variable in names:
                    reads[names.index(variable), names.index(operand.variable)] = True
        return np.asarray(self.automaton.reachable @ reads)

    @cached_property
    def aggregates(self) -> dict[str | None, Aggregates]:
        """The aggregates that conditions read, by the variable whose rows they are of."""
        operands = [o for read in self.reads.values() for o in read.values() if isinstance(o, Aggregated)]
        return aggregates_of(operands, self.input)


def aggregates_of(operands: Iterable[Aggregated], rows: pa.Schema) -> dict[str | None, Aggregates]:
    by_variable: dict[str | None, dict[str, Aggregated]] = {}
    for operand in operands:
        by_variable.setdefault(operand.variable, {})[operand.name] = operand
    return {v: Aggregates(tuple(o.call for o in own.values()), rows) for v, own in by_variable.items()}


def _conjuncts(condition: Expression) -> Iterable[Expression]:
    if not isinstance(condition, And):
        return [condition]
    return [conjunct for part in condition.conditions for conjunct in _conjuncts(part)]
