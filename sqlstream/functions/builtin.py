"""An entry of the catalogue of built-in functions, and its constructors by kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property, partial

from sqlstream.types import UNKNOWN, DataType

ResultRule = Callable[[Sequence[DataType]], DataType]
"""The type of a call's result from the types of its arguments; UNKNOWN where only Spark can tell."""


class BuiltinKind(Enum):
    """The kind of a function, which decides where it may be called."""

    SCALAR = "scalar"
    AGGREGATE = "aggregate"
    GENERATOR = "generator"
    """Makes several rows of one."""
    WINDOW = "window"
    """Needs OVER."""
    TABLE = "table"
    """Stands in FROM."""
    TIME_ATTRIBUTE = "time attribute"
    GROUP_WINDOW = "group window"
    """A window in GROUP BY."""
    WINDOW_PROPERTY = "window property"

    @property
    def text(self) -> str:
        """The kind in words, for users."""
        return "window" if self is BuiltinKind.GROUP_WINDOW else self.value


class Origin(Enum):
    """Where a built-in function is defined: in Spark, in its grammar, in Flink, or by the planner."""

    SPARK = "spark"
    SYNTAX = "syntax"
    """A form of Spark's grammar that looks like a call, and that SHOW FUNCTIONS of Spark does not list."""
    FLINK = "flink"
    """Spark has no function of that name."""
    PLANNER = "planner"
    """The planner resolves it: no function of Spark computes it."""


SYNTAX, FLINK = Origin.SYNTAX, Origin.FLINK


@dataclass(frozen=True)
class Builtin:
    """A built-in function. Names are in lower case.

    ``arity``: the number of arguments: ``1 2`` for one or two, ``1+`` for one or more, ``even`` for pairs; None
    where only Spark knows. ``result``: the type of its result, or a function of the types of the arguments.
    ``aliases``: its other names, separated by spaces. ``alias_of``: the name of the entry that has this alias.
    ``flink``: Flink has it with the same meaning by its ``name``; or by these names, separated by spaces.
    ``spark``: templates of Spark SQL by the number of arguments, which are ``p1``, ``p2``, …. A call with another
    number of arguments is unchanged for Spark. ``volatile``: it may return another result at every call. ``regex``:
    its second argument is a regular expression. ``unit_first``: the first of three arguments is a unit of time, as
    in ``DATEADD(DAY, 1, d)``. ``keyword``: the word that may replace a comma, as in ``POSITION('a' IN s)``.
    ``node``: sqlglot's class for a call by its ``name`` with one argument, where the planner looks for that class.
    """

    kind: BuiltinKind
    name: str
    arity: str | None = None
    result: DataType | ResultRule = UNKNOWN
    aliases: str = ""
    origin: Origin = Origin.SPARK
    flink: bool | str = False
    spark: Mapping[int, str] | None = None
    volatile: bool = False
    regex: bool = False
    unit_first: bool = False
    keyword: str | None = None
    node: str | None = None
    alias_of: str | None = None

    @property
    def by_each_name(self) -> list[Builtin]:
        """The function as one entry per name: its own and each alias."""
        if isinstance(self.flink, bool) and not self.aliases:
            return [self]
        in_flink = self.flink.split() if isinstance(self.flink, str) else [self.name] * self.flink
        named = replace(self, flink=self.name in in_flink)
        aliases = self.aliases.split()
        return [named, *(replace(self, name=a, aliases="", alias_of=self.name, flink=a in in_flink) for a in aliases)]

    def result_type(self, arguments: Sequence[DataType]) -> DataType:
        """The type of a call on arguments of these types."""
        return self.result if isinstance(self.result, DataType) else self.result(arguments)

    def takes(self, count: int) -> bool:
        """Whether the function accepts this number of arguments; True where that is unknown."""
        if self.arity is None:
            return True
        if self.arity == "even":
            return count % 2 == 0
        if self.arity.endswith("+"):
            return count >= int(self.arity[:-1])
        return count in self._counts

    @property
    def arity_in_words(self) -> str:
        """The number of arguments in words: ``1 argument``, ``2 or 3 arguments``. Must not be called if ``arity`` is
        None.
        """
        assert self.arity is not None, "the number of arguments is not known"
        if self.arity == "even":
            return "an even number of arguments"
        if self.arity.endswith("+"):
            return f"at least {self.arity[:-1]} argument{'' if self.arity == '1+' else 's'}"
        *others, last = map(str, self._counts)
        listed = f"{', '.join(others)} or {last}" if others else "no" if last == "0" else last
        return f"{listed} argument{'' if listed == '1' else 's'}"

    @cached_property
    def _counts(self) -> list[int]:
        """The numbers of arguments, with those for which Spark needs another spelling."""
        assert self.arity is not None
        return sorted({*map(int, self.arity.split()), *(self.spark or ())})


class Arrival(Enum):
    """How the result of an aggregate depends on the order in which rows arrived."""

    NOWHERE = "nowhere"
    SKETCHES = "in sketches, which approximate alike in any order"
    TIES = "among rows that tie or repeat"
    PICKED = "in the value that it picks"
    LISTED = "in the list of values"


class NullTreatment(Enum):
    """How an aggregate treats NULLs."""

    IGNORE = "IGNORE NULLS"
    RESPECT = "RESPECT NULLS"


IGNORE, RESPECT = NullTreatment.IGNORE, NullTreatment.RESPECT


@dataclass(frozen=True)
class Aggregate(Builtin):
    """An aggregate function.

    ``columns``: how many columns its kernel reads as arguments; None for any number. ``more_are_constants``: its
    arguments after these columns are constants. ``idempotent``: repeated values do not change the result, so DISTINCT
    has no effect. ``arrival``: how its result depends on the order in which rows arrived. ``nulls``: what Flink's
    function of this name does with NULLs unless IGNORE NULLS or RESPECT NULLS says it; None if it does not accept
    these. ``orderable``: it accepts ORDER BY among its arguments, or in WITHIN GROUP. ``kernel``: the names of the
    types that its kernel takes, for each column that it reads, None for all types; None if no kernel computes the
    function, which streams then do not execute.
    """

    columns: int | None = 1
    more_are_constants: bool = False
    idempotent: bool = False
    arrival: Arrival = Arrival.NOWHERE
    nulls: NullTreatment | None = None
    orderable: bool = False
    kernel: tuple[frozenset[str] | None, ...] | None = None

    @property
    def shows_arrival(self) -> bool:
        """True where the exact result may depend on the order in which rows arrived, as that of FIRST_VALUE does. False
        for sketches, whose approximation varies a little with the order.
        """
        return self.arrival not in (Arrival.NOWHERE, Arrival.SKETCHES)

    @property
    def says_whether_nulls_are_ignored(self) -> bool:
        """True if a constant second argument may say whether NULLs are ignored, instead of IGNORE NULLS."""
        return self.nulls is not None and self.takes(2)


scalar = partial(Builtin, BuiltinKind.SCALAR)
aggregate = partial(Aggregate, BuiltinKind.AGGREGATE)
generator = partial(Builtin, BuiltinKind.GENERATOR)
window = partial(Builtin, BuiltinKind.WINDOW)
table = partial(Builtin, BuiltinKind.TABLE)
time_attribute = partial(Builtin, BuiltinKind.TIME_ATTRIBUTE, origin=Origin.PLANNER)
group_window = partial(Builtin, BuiltinKind.GROUP_WINDOW, origin=Origin.PLANNER)
window_property = partial(Builtin, BuiltinKind.WINDOW_PROPERTY, origin=Origin.PLANNER)
