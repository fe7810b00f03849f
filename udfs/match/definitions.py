"""DEFINE: the conditions on rows that are mapped to a variable, taken apart by what they read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.match.automaton import Automaton
from sqlstream.udfs.match.expressions import And, Columns, Expression
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
        read = {name for conditions in self._of_rows.values() for c in conditions for name in c.operands}
        columns = {
            operand.name: line.values(operand.column, line.shifted(rows, operand.shift), operand.absent)
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
        return all(isinstance(self._by_name[name], Current) for name in condition.operands)

    @cached_property
    def _by_name(self) -> dict[str, Operand]:
        return {operand.name: operand for operand in self.operands}

    def operands_of(self, variable: str) -> list[Operand]:
        """Those of the condition that reads rows which were mapped before."""
        return [self._by_name[name] for name in sorted(self.of_matches[variable].operands)]

    @cached_property
    def registers(self) -> Registers:
        return Registers(self.automaton, [o for variable in self.of_matches for o in self.operands_of(variable)])

    @cached_property
    def reads_start(self) -> bool:
        """True where a condition reads all rows of the match from the first one on."""
        operands = (o for variable in self.of_matches for o in self.operands_of(variable))
        return any(
            not isinstance(o, Current) and o.variable is None and (isinstance(o, Aggregated) or not o.last or o.offset)
            for o in operands
        )

    @cached_property
    def is_read(self) -> Flags:
        """By place and variable: whether conditions on rows behind the place read rows of the variable."""
        names = self.automaton.names
        reads = np.zeros((len(names), len(names)), np.bool_)
        for variable in self.of_matches:
            for operand in self.operands_of(variable):
                if not isinstance(operand, Current) and operand.variable in names:
                    reads[names.index(variable), names.index(operand.variable)] = True
        return np.asarray(self.automaton.reachable @ reads)

    @cached_property
    def aggregates(self) -> dict[str | None, Aggregates]:
        """The aggregates that conditions read, by the variable whose rows they are of."""
        operands = [o for v in self.of_matches for o in self.operands_of(v) if isinstance(o, Aggregated)]
        return aggregates_of(operands, self.input)


def aggregates_of(operands: Iterable[Aggregated], rows: pa.Schema) -> dict[str | None, Aggregates]:
    by_variable: dict[str | None, dict[str, Aggregated]] = {}
    for operand in operands:
        by_variable.setdefault(operand.variable, {})[operand.name] = operand
    return {v: Aggregates(tuple(o.call for o in own.values()), rows) for v, own in by_variable.items()}


def is_true(condition: Expression, columns: Columns) -> Flags:
    return np.asarray(pc.fill_null(condition.value(columns), False))


def _conjuncts(condition: Expression) -> Iterable[Expression]:
    if not isinstance(condition, And):
        return [condition]
    return [conjunct for part in condition.conditions for conjunct in _conjuncts(part)]
