"""MATCH_RECOGNIZE: from syntax to its node and the projection of its measures.

Each value of a row, and each aggregate over rows, that DEFINE and MEASURES read becomes an operand of the node.
Conditions and measures are bound over the operands, as if these were the fields of one row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream.errors import BindError, SqlStreamError
from sqlstream.grammar import nodes as n
from sqlstream.grammar import to_sql
from sqlstream.grammar.spans import mark, span_of
from sqlstream.grammar.trees import match_recognize_of
from sqlstream.planner import unsupported
from sqlstream.planner.binder.calls import aggregate_name, check_aggregate_types
from sqlstream.planner.binder.changelogs import check_changes
from sqlstream.planner.binder.context import Context, Relation, bind_error
from sqlstream.planner.binder.expressions import ClauseContext, bind, bind_condition, is_whole_number, types_of
from sqlstream.planner.binder.ordering import check_order, sorted_by
from sqlstream.planner.binder.scope import Scope, Selected, Visible, names_under, scope_of, with_processing_time
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.expressions import with_children_changed
from sqlstream.planner.fields import Field, Item, Schema, UniqueNames, field_name, field_of, shown_name
from sqlstream.planner.intervals import interval_ms, readable
from sqlstream.planner.kernel_expressions import Defined, MatchOperand, Reads, match_conditions
from sqlstream.planner.match_patterns import MOST_PLACES, TooManyPlaces, automaton_of
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import AssignTime, Project, Scan, extended
from sqlstream.planner.operators.match_recognize import MatchRecognize
from sqlstream.planner.operators.over import Sorted
from sqlstream.planner.suggestions import did_you_mean
from sqlstream.planner.type_inference import Types
from sqlstream.types import BIGINT, STRING, TIMESTAMP
from sqlstream.udfs.match.automaton import Automaton, Skip, SkipTo

WRONG_ORDER, WRONG_VARIABLE, WRONG_CALL, WRONG_PATTERN = "SS680", "SS681", "SS682", "SS683"
ENDLESS, WRONG_SKIP, WRONG_TIME = "SS684", "SS685", "SS687"

_ALL_ROWS = "ALL ROWS PER MATCH"
_ROWS = {None: False, "ONE ROW PER MATCH": False, _ALL_ROWS: True}
_LOGICAL = frozenset({"LAST", "FIRST"})
_PHYSICAL = frozenset({"PREV", "NEXT"})
_OF_MATCH = frozenset({"MATCH_ROWTIME", "MATCH_PROCTIME", "CLASSIFIER", "MATCH_NUMBER"})
_FURTHEST = 10_000
"""The greatest number of rows that LAST, FIRST, PREV and NEXT may skip."""


def with_matches(select: exp.Select, scope: Scope, context: Context) -> Scope:
    """Returns the scope of the matches if the SELECT has MATCH_RECOGNIZE; otherwise ``scope``, that of FROM,
    unchanged.
    """
    carrier = select.args.get("match")
    clause = match_recognize_of(select)
    if carrier is None:
        return scope
    if clause is None:
        raise unsupported.refusal("syntax", span_of(carrier))
    if select.args.get("joins") or select.args.get("laterals"):
        raise unsupported.refusal("match join", span_of(carrier))
    relation = _Matching(clause, scope, context).relation()
    context.stop_if_wrong()
    alias = carrier.args.get("alias")
    table = alias.name if alias is not None else ""
    return scope_of(Relation(relation.node, names_under(alias, table, relation.names)), table or None)


@dataclass(frozen=True)
class _Operands(Node):
    """A placeholder node whose fields are the operands."""

    fields: Schema

    @property
    def schema(self) -> Schema:
        return self.fields


class _Matching:
    def __init__(self, clause: n.MatchRecognize, scope: Scope, context: Context) -> None:
        self._clause = clause
        self._scope = scope
        self._context = context
        self._computed: dict[exp.Expression, Item] = {}
        self._field_names = UniqueNames(field.name for field in scope.node.schema)

    def relation(self) -> Relation:
        clause, context = self._clause, self._context
        if clause.rows not in _ROWS:
            raise unsupported.refusal("match", clause.span, f"It is {clause.rows}.")
        automaton = self._automaton()
        keys = [(self._key(key), shown_name(key)) for key in clause.partition_by]
        time, ties = self._order()
        context.stop_if_wrong()
        domain = time.time
        assert domain is not None, "checked by _order"
        self._scope = (
            self._scope.over(extended(self._scope.node, self._computed.values())) if self._computed else self._scope
        )
        all_rows = _ROWS[clause.rows]
        passed = [field.name for field in self._scope.node.schema] if all_rows else [key for key, _ in keys]
        defining, measuring = (
            _Reading(automaton, self._scope, context, UniqueNames(passed), time, all_rows) for _ in range(2)
        )
        definitions = tuple(self._definitions(automaton, defining))
        measures = [(measure, measuring.measured(measure)) for measure in clause.measures]
        context.stop_if_wrong()
        node = MatchRecognize(
            self._scope.node,
            tuple(key for key, _ in keys),
            time.name,
            clause.pattern.text(to_sql),
            automaton,
            definitions,
            tuple(defining.operands),
            tuple(measuring.operands),
            self._skip(automaton),
            TimeDomain.PROCESSING if domain is TimeDomain.PROCESSING else TimeDomain.EVENT,
            ties,
            self._within(automaton, {defined.variable for defined in definitions}),
            all_rows,
        )
        try:
            match_conditions(definitions, defining.operands, context.catalog.function)
        except BindError as error:
            context.report(error)
        checked = check_changes(node, context, clause.span)
        return self._projected(checked, keys, measures, time)

    # --- the parts of the clause --------------------------------------------------------------------------------

    def _automaton(self) -> Automaton:
        pattern = self._clause.pattern
        try:
            automaton = automaton_of(pattern)
        except TooManyPlaces:
            message = f"the pattern has more than {MOST_PLACES:,} variables, with repetitions written out"
            raise bind_error(
                WRONG_PATTERN, message, pattern.span, "Repeat without bound, as A+, and add WITHIN."
            ) from None
        if automaton.matches_nothing:
            hint = "Let it have a row at least, as A+ in place of A*."
            raise bind_error(WRONG_PATTERN, "the pattern may match without a row", pattern.span, hint)
        return automaton

    def _key(self, key: exp.Expr) -> str:
        return self._field(key, ClauseContext("PARTITION BY"))

    def _field(self, expression: exp.Expr, place: ClauseContext) -> str:
        """The field of an expression, which is computed below if it is not a field already."""
        bound = bind(expression, self._scope, self._context, place)
        if isinstance(bound, exp.Column):
            return bound.name
        if bound not in self._computed:
            types = types_of(self._scope, self._context)
            name = self._field_names.unique(field_name(shown_name(expression), expression))
            self._computed[bound] = Item(name, bound, types.of(bound), types.nullable(bound))
        return self._computed[bound].name

    def _order(self) -> tuple[Field, tuple[Sorted, ...]]:
        """The time attribute of ORDER BY, and the columns after it, which break ties. SS680."""
        ordered = self._clause.order_by
        hint = "Write ORDER BY with the column named by WATERMARK FOR, or pt AS PROCTIME(), first and ascending."
        if not ordered:
            raise bind_error(WRONG_ORDER, "MATCH_RECOGNIZE needs an order of time", self._clause.span, hint)
        first, *further = ordered
        time = self._time(first)
        if time is None or time.time is None or first.args.get("desc"):
            message = "MATCH_RECOGNIZE needs rows in the order of a time attribute, ascending"
            raise bind_error(WRONG_ORDER, message, first, hint)
        if time.time is TimeDomain.PROCESSING and further:
            hint = "Rows are matched one by one, as they arrive: leave the other columns out."
            raise bind_error(WRONG_ORDER, "an order of processing time has no further columns", further[0], hint)
        ties = tuple(map(self._tie, further))
        self._context.stop_if_wrong()
        if ties:
            check_order(ties, extended(self._scope.node, self._computed.values()), further[0])
        return time, ties

    def _time(self, ordered: exp.Expr) -> Field | None:
        column = ordered.this if isinstance(ordered, exp.Ordered) else ordered
        self._scope, (marked,) = with_processing_time([Selected("time", column)], self._scope)
        bound = marked.bound or bind(column, self._scope, self._context, ClauseContext("ORDER BY"))
        return self._scope.fields.get(bound.name) if isinstance(bound, exp.Column) else None

    def _tie(self, ordered: exp.Expr) -> Sorted:
        return sorted_by(ordered, self._field(ordered.this, ClauseContext("ORDER BY")))

    def _definitions(self, automaton: Automaton, operands: _Reading) -> Iterator[Defined]:
        seen: set[str] = set()
        for definition in self._clause.definitions:
            variable = operands.variables.get(definition.name.casefold())
            if variable is None:
                hint = did_you_mean(definition.name, automaton.names, "variables of PATTERN")
                message = f'"{definition.name}" of DEFINE is no variable of PATTERN'
                self._context.wrong(WRONG_VARIABLE, message, definition.span, hint)
            elif variable in seen:
                message = f'"{definition.name}" is defined twice'
                self._context.wrong(WRONG_VARIABLE, message, definition.span, "Join the conditions with AND.")
            else:
                seen.add(variable)
                condition = operands.condition(definition.condition, variable)
                if condition is not None:
                    yield Defined(variable, condition)

    def _within(self, automaton: Automaton, defined: set[str]) -> int | None:
        """WITHIN in milliseconds. BindError SS684 if it is missing and matches would never be complete."""
        within = self._clause.within
        if within is not None:
            milliseconds = interval_ms(within, "the interval of WITHIN", span_of(within))
            if milliseconds <= 0:
                message = f"the interval of WITHIN must be positive, but is {readable(milliseconds)}"
                self._context.wrong("SS212", message, within)
            return milliseconds
        anything = frozenset(automaton.names) - defined
        for place, ends in enumerate(automaton.ends):
            if ends and automaton.comes_again(place, anything):
                variable = automaton.variables[place]
                message = f'the pattern never ends: its last variable "{variable}" takes every row'
                hint = (
                    f"Define {variable}, let it repeat reluctantly, as {variable}*?, or add WITHIN INTERVAL '1' HOUR."
                )
                raise bind_error(ENDLESS, message, self._clause.pattern.span, hint)
        return None

    def _skip(self, automaton: Automaton) -> Skip:
        written = self._clause.skip or "PAST LAST ROW"
        plain = {skip.value: skip for skip in (SkipTo.PAST_LAST_ROW, SkipTo.NEXT_ROW)}
        if written.upper() in plain:
            return Skip(plain[written.upper()])
        _, end, name = written.split(" ", 2)
        variable = next((v for v in automaton.names if v.casefold() == name.casefold()), None)
        if variable is None:
            hint = did_you_mean(name, automaton.names, "variables of PATTERN")
            message = f'"{name}" of AFTER MATCH SKIP is no variable of PATTERN'
            raise bind_error(WRONG_VARIABLE, message, self._clause.span, hint)
        to = SkipTo.FIRST if end.upper() == "FIRST" else SkipTo.LAST
        if to is SkipTo.FIRST and all(automaton.variables[place] == variable for place in automaton.first):
            message = (
                f'AFTER MATCH SKIP TO FIRST {variable} never goes on: each match begins with a row of "{variable}"'
            )
            hint = "Write AFTER MATCH SKIP TO NEXT ROW, or name another variable."
            raise bind_error(WRONG_SKIP, message, self._clause.span, hint)
        return Skip(to, variable)

    # --- the result ---------------------------------------------------------------------------------------------

    def _projected(
        self,
        node: Node,
        keys: Sequence[tuple[str, str]],
        measures: Sequence[tuple[n.Measured, exp.Expression | None]],
        time: Field,
    ) -> Relation:
        """The columns of the result: the keys, the measures, and with ALL ROWS PER MATCH the order before and all other
        columns after them."""
        fields = {field.name: field for field in node.schema}
        shown = [(fields[key], name) for key, name in keys]
        others: list[tuple[Field, str]] = []
        if _ROWS[self._clause.rows]:
            columns = [c for c in self._scope.columns if c.starred and c.field not in {key for key, _ in keys}]
            ordered = [time.name, *(tie.name for tie in getattr(node, "ties", ()))]
            others = [(fields[c.field], c.name) for c in columns]
            shown += sorted((o for o in others if o[0].name in ordered), key=lambda o: ordered.index(o[0].name))
            others = [o for o in others if o[0].name not in ordered]
        node, proctime = self._with_proctime(node, [value for _, value in measures])
        names = UniqueNames([*(field.name for field, _ in [*shown, *others])])
        types = Types(node.schema, self._context.catalog.function)
        items = []
        for measure, value in measures:
            bound = field_of(proctime) if value is _PROCTIME else value
            assert bound is not None, "wrong measures have stopped the query"
            field = next((f for f in node.schema if isinstance(bound, exp.Column) and f.name == bound.name), None)
            kind = field.time if field is not None else None
            items.append(Item(names.unique(measure.name), bound, types.of(bound), types.nullable(bound), kind))
        whole = (*(f.as_item for f, _ in shown), *items, *(f.as_item for f, _ in others))
        shown_names = (*(name for _, name in shown), *(m.name for m, _ in measures), *(name for _, name in others))
        return Relation(Project(node, whole), shown_names)

    def _with_proctime(self, node: Node, values: Sequence[exp.Expression | None]) -> tuple[Node, str]:
        """The node with the processing time at which matches are emitted, if a measure needs it, and its field.
        SS687."""
        if _PROCTIME not in values:
            return node, ""
        tables = {scan.table.name for scan in node.walk() if isinstance(scan, Scan)}
        if len(tables) != 1:
            hint = "Write PROCTIME() into the select list of a query of one table."
            raise bind_error(WRONG_TIME, "MATCH_PROCTIME() needs rows of one table", self._clause.span, hint)
        name = UniqueNames(field.name for field in node.schema).unique("proctime")
        return AssignTime(node, name, 0, TimeDomain.PROCESSING, *tables), name


_PROCTIME = exp.Anonymous(this="MATCH_PROCTIME")


# --- operands -------------------------------------------------------------------------------------------------


class _Reading:
    """Binds conditions and measures, and collects what they read in ``operands``, each operand once."""

    def __init__(
        self, automaton: Automaton, scope: Scope, context: Context, names: UniqueNames, time: Field, all_rows: bool
    ) -> None:
        self.variables = {name.casefold(): name for name in automaton.names}
        self.operands: list[MatchOperand] = []
        self._scope = scope
        self._context = context
        self._names = names
        self._time = time
        self._all_rows = all_rows
        self._defined: str | None = None
        self._running = True

    def condition(self, written: exp.Expr, variable: str) -> exp.Expression | None:
        """The condition of a variable over the operands; None where it is wrong."""
        self._defined = variable
        parted = self._parted(written)
        if parted is None:
            return None
        return bind_condition(parted, self._operands(), self._context, ClauseContext("DEFINE"))

    def measured(self, measure: n.Measured) -> exp.Expression | None:
        """The measure over the operands; None where it is wrong."""
        self._defined, self._running = None, self._all_rows and measure.mode != "FINAL"
        call = _own_call(measure.expression)
        if call == "MATCH_PROCTIME":
            return _PROCTIME
        parted = self._parted(measure.expression, measure.name)
        if parted is None:
            return None
        return bind(parted, self._operands(), self._context, ClauseContext("MEASURES"))

    def _operands(self) -> Scope:
        fields = tuple(operand.item.field for operand in self.operands)
        return Scope(_Operands(fields), tuple(Visible(f.name, f.name) for f in fields))

    def _parted(self, written: exp.Expr, wish: str | None = None) -> exp.Expr | None:
        """A copy that reads operands as columns; None after a mistake, which is reported."""
        try:
            return self._replaced(written, wish)
        except SqlStreamError as error:
            self._context.report(error)
            return None

    def _replaced(self, node: exp.Expr, wish: str | None = None) -> exp.Expr:
        call = _own_call(node)
        if call in _LOGICAL | _PHYSICAL:
            return self._column(self._navigated(node), wish, node)
        if call == "MATCH_ROWTIME" and self._defined is not None:
            return self._column(self._time_of_row(node), wish, node)
        if call in _OF_MATCH:
            return self._column(self._of_match(node, call), wish, node)
        name = aggregate_name(node, self._context.catalog)
        if name is not None:
            return self._column(self._aggregated(node, name), wish or name, node)
        if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
            return self._column(self._value(node), wish or node.name, node)
        if isinstance(node, (exp.Query, exp.Interval, exp.Lambda)):
            return node.copy()
        return with_children_changed(
            node, lambda child: self._replaced(child, wish if isinstance(node, exp.Paren) else None)
        )

    def _column(self, operand: MatchOperand, wish: str | None, at: exp.Expr) -> exp.Expr:
        """The column for an operand, which is added unless an equal one is known."""
        alike = next((o for o in self.operands if replace(o, item=operand.item) == operand and _same(o, operand)), None)
        if alike is None:
            item = replace(operand.item, name=self._names.unique(wish or operand.item.name or "value"))
            alike = replace(operand, item=item)
            self.operands.append(alike)
        column = field_of(alike.name)
        span = span_of(at)
        if span is not None:
            mark(column, span.start, span.end)
        return column

    # --- values in rows -----------------------------------------------------------------------------------------

    def _value(self, written: exp.Expr) -> MatchOperand:
        """The operand for an expression over the last row of a variable."""
        variable, plain = self._of_one_variable(written)
        bound = bind(plain, self._scope, self._context, ClauseContext("MATCH_RECOGNIZE"))
        types = types_of(self._scope, self._context)
        field = self._scope.fields.get(bound.name) if isinstance(bound, exp.Column) else None
        item = Item(field.name if field is not None else "", bound, types.of(bound))
        return self._at(MatchOperand(item, variable=variable, running=self._running))

    def _at(self, operand: MatchOperand) -> MatchOperand:
        """The operand, marked if it reads the row to be mapped: that is the last row of its variable and of all
        rows."""
        is_current = self._defined is not None and operand.variable in (None, self._defined)
        current = is_current and operand.last and operand.offset == 0
        return replace(operand, current=current, variable=None if current else operand.variable)

    def _navigated(self, call: exp.Expr) -> MatchOperand:
        name, arguments = call.name.upper(), call.expressions
        if not 1 <= len(arguments) <= 2:
            raise bind_error(WRONG_CALL, f"{name} takes a value and a number of rows", call)
        number = _count(name, arguments[1]) if len(arguments) == 2 else None
        value = arguments[0].unnest()
        inner = _own_call(value)
        if name in _LOGICAL:
            if inner in _LOGICAL | _PHYSICAL or any(_own_call(part) for part in value.walk()):
                hint = "PREV and NEXT stand around LAST and FIRST, as in PREV(LAST(A.x, 1))."
                raise bind_error(WRONG_CALL, f"{name} takes a value of one row", call, hint)
            operand = self._value(value)
            return self._at(replace(self._unsettled(operand, value), last=name == "LAST", offset=number or 0))
        if inner in _PHYSICAL:
            raise bind_error(
                WRONG_CALL, f"{name} stands around {inner}", call, "Write one of them, with the number of rows."
            )
        operand = self._navigated(value) if inner in _LOGICAL else self._value(value)
        shift = 1 if number is None else number
        return replace(operand, shift=-shift if name == "PREV" else shift)

    def _unsettled(self, operand: MatchOperand, value: exp.Expr) -> MatchOperand:
        """The operand with its variable, not marked as reading the row to be mapped."""
        return replace(operand, variable=self._of_one_variable(value)[0], current=False)

    def _of_one_variable(self, written: exp.Expr) -> tuple[str | None, exp.Expr]:
        """The variable whose rows an expression reads, and the expression without the variable. BindError SS682."""
        variables: dict[str | None, None] = {}

        def plain(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Column):
                variable, column = self._unqualified(node)
                variables[variable] = None
                return column
            return node if isinstance(node, exp.Query) else with_children_changed(node, plain)

        expression = plain(written)
        if len(variables) > 1:
            message = "one value reads rows of several variables"
            hint = "Compute it of several values, as in LAST(A.x) * LAST(B.y); an aggregate reads rows of one variable."
            raise bind_error(WRONG_CALL, message, written, hint)
        return next(iter(variables), None), expression

    def _unqualified(self, column: exp.Column) -> tuple[str | None, exp.Expr]:
        parts = column.parts
        variable = self.variables.get(parts[0].name.casefold()) if len(parts) > 1 else None
        if variable is None:
            if len(parts) > 1 and not self._is_known(column):
                candidates = [*self.variables.values(), *self._scope.tables]
                hint = did_you_mean(parts[0].name, candidates, "variables of PATTERN")
                raise bind_error(WRONG_VARIABLE, f'"{parts[0].name}" is no variable of PATTERN', column, hint)
            return None, column.copy()
        if isinstance(column.this, exp.Star):
            return variable, exp.Star()
        names = dict(
            zip(("this", "table", "db", "catalog"), (part.copy() for part in reversed(parts[1:])), strict=False)
        )
        plain = exp.Column(**names)
        span = span_of(column)
        if span is not None:
            mark(plain, span.start, span.end)
        return variable, plain

    def _is_known(self, column: exp.Column) -> bool:
        """Whether the name begins with a table or a column of FROM."""
        first = column.parts[0].name
        tables = {table.casefold() for name in self._scope.tables for table in (name, name.split(".")[0])}
        return first.casefold() in tables or bool(self._scope.find(first))

    # --- aggregates and what is of the match --------------------------------------------------------------------

    def _aggregated(self, call: exp.Expr, name: str) -> MatchOperand:
        if any(_own_call(node) for node in call.walk()):
            message = f'aggregate "{name}" takes values of rows'
            raise bind_error(WRONG_CALL, message, call, "Leave LAST, FIRST, PREV and NEXT out of it.")
        variable, plain = self._of_one_variable(call)
        bound = bind(plain, self._scope, self._context, ClauseContext("MATCH_RECOGNIZE", aggregates=True))
        check_aggregate_types(bound, self._scope.node.schema, self._context)
        types = types_of(self._scope, self._context)
        item = Item(name, bound, types.of(bound), types.nullable(bound))
        return MatchOperand(item, Reads.ROWS, variable, running=self._running)

    def _of_match(self, node: exp.Expr, call: str) -> MatchOperand:
        if self._defined is not None or call == "MATCH_PROCTIME":
            where = "stands alone in MEASURES" if call == "MATCH_PROCTIME" else "stands in MEASURES, not in DEFINE"
            raise bind_error(WRONG_CALL, f"{call}() {where}", node)
        if node.expressions and call != "MATCH_ROWTIME":
            raise bind_error(WRONG_CALL, f"{call} takes no argument", node)
        match call:
            case "CLASSIFIER":
                item = Item("classifier", exp.Anonymous(this="CLASSIFIER"), STRING, False)
                return MatchOperand(item, Reads.CLASSIFIER, running=self._running)
            case "MATCH_NUMBER":
                item = Item("match_number", exp.Anonymous(this="MATCH_NUMBER"), BIGINT, False)
                return MatchOperand(item, Reads.NUMBER, running=False)
        return self._rowtime(node)

    def _time_of_row(self, node: exp.Expr) -> MatchOperand:
        """In DEFINE, the time of the row to be mapped."""
        item = replace(self._rowtime(node).item, name=self._time.name, time=None)
        return self._at(MatchOperand(item, running=self._running))

    def _rowtime(self, node: exp.Expr) -> MatchOperand:
        """The time attribute of the last row of the match. SS687."""
        if self._time.time is TimeDomain.PROCESSING:
            hint = "Write MATCH_PROCTIME(), or order by the column named by WATERMARK FOR."
            raise bind_error(WRONG_TIME, "MATCH_ROWTIME() needs an order of event time", node, hint)
        for argument in node.expressions:
            bound = bind(argument, self._scope, self._context, ClauseContext("MATCH_ROWTIME"))
            if not isinstance(bound, exp.Column) or bound.name != self._time.name:
                raise bind_error(WRONG_TIME, "MATCH_ROWTIME takes the time of ORDER BY, or nothing", argument)
        item = Item("match_rowtime", field_of(self._time.name), TIMESTAMP, False, self._time.time)
        return MatchOperand(item, running=False)


def _same(known: MatchOperand, operand: MatchOperand) -> bool:
    return replace(known.item, name="") == replace(operand.item, name="")


def _own_call(node: exp.Expr) -> str | None:
    """The upper-case name of a function that only MATCH_RECOGNIZE has; None for other expressions."""
    name = node.name.upper() if isinstance(node, exp.Anonymous) else ""
    return name if name in _LOGICAL | _PHYSICAL | _OF_MATCH else None


def _count(name: str, number: exp.Expr) -> int:
    if not is_whole_number(number) or len(number.name) > 9 or int(number.name) > _FURTHEST:
        message = f"the second argument of {name} must be a whole number up to {_FURTHEST:,}, written as such"
        raise bind_error(WRONG_CALL, message, number)
    return int(number.name)
