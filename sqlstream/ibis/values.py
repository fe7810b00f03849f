"""Values of Ibis's expressions that Ibis's Spark lacks, or computes otherwise than other backends of Ibis do."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import ibis.common.exceptions as com
import ibis.expr.datatypes as dt
import ibis.expr.operations as ops
import sqlglot as sg
from ibis.backends.sql.compilers.base import NULL, SQLGlotCompiler
from ibis.backends.sql.compilers.pyspark import PySparkCompiler
from sqlglot import exp

_DIGESTS = ("md5", "sha1", "sha256", "sha512")
_MICROSECONDS = {"us": 1, "ms": 10**3, "s": 10**6, "m": 60 * 10**6, "h": 3600 * 10**6, "D": 86400 * 10**6,
                 "W": 7 * 86400 * 10**6}  # fmt: skip


class Values(PySparkCompiler):
    """The methods of the compiler for texts, times, arrays, maps and tests for NULL."""

    UNSUPPORTED_OPS = (
        ops.RowID,
        ops.RandomUUID,
        ops.Kurtosis,
        ops.UnwrapJSONString,
        ops.UnwrapJSONInt64,
        ops.UnwrapJSONFloat64,
        ops.UnwrapJSONBoolean,
    )
    SIMPLE_OPS: ClassVar[dict[Any, str]] = {
        ops.Mode: "mode",
        ops.BitAnd: "bit_and",
        ops.BitOr: "bit_or",
        ops.BitXor: "bit_xor",
    }

    # --- NULL and NaN, which is a value ---

    visit_IsNull = SQLGlotCompiler.visit_IsNull  # noqa: N815
    visit_NotNull = SQLGlotCompiler.visit_NotNull  # noqa: N815

    def visit_IsNan(self, op: Any, *, arg: Any) -> Any:  # noqa: N802
        """NULL of NULL; Spark's ISNAN is FALSE of it."""
        return self.if_(arg.is_(NULL), NULL, self.f.isnan(arg))

    def visit_TypeOf(self, op: Any, *, arg: Any) -> Any:  # noqa: N802
        """The name of a type in the dialect."""
        return self.f.anon.typeof(arg)

    # --- texts ---

    def visit_HashBytes(self, op: Any, *, arg: Any, how: str) -> Any:  # noqa: N802
        """A digest as bytes."""
        if how not in _DIGESTS:
            raise com.UnsupportedOperationError(f"sqlstream has the digests {', '.join(_DIGESTS)}, not {how}")
        return self.f.anon.unhex(self.visit_HexDigest(op, arg=arg, how=how))

    def visit_FindInSet(self, op: Any, *, needle: Any, values: Any) -> Any:  # noqa: N802
        """The position in a list, which Ibis counts from 0."""
        return self.f.anon.array_position(self.f.array(*values), needle)

    def visit_BaseConvert(self, op: Any, **kw: Any) -> Any:  # noqa: N802
        """A number in another base, as text."""
        return self.f.anon.conv(*kw.values())

    def visit_RegexReplace(self, op: Any, *, arg: Any, pattern: Any, replacement: Any) -> Any:  # noqa: N802
        r"""Ibis writes a group as ``\1``, as Python does; Java's expressions as ``$1``."""
        if isinstance(op.replacement, ops.Literal):
            text = re.sub(r"\\(\d)|\$", lambda m: f"${m[1]}" if m[1] else r"\$", op.replacement.value)
            replacement = exp.convert(text)
        return self.f.regexp_replace(arg, pattern, replacement)

    def visit_ExtractUrlField(self, op: Any, *, arg: Any) -> Any:  # noqa: N802
        """A part of a URL, which has the name of the operation."""
        return self.f.anon.try_parse_url(arg, exp.convert(type(op).__name__.removeprefix("Extract").upper()))

    visit_ExtractAuthority = visit_ExtractFile = visit_ExtractHost = visit_ExtractPath = visit_ExtractUrlField  # noqa: N815
    visit_ExtractProtocol = visit_ExtractUserInfo = visit_ExtractUrlField  # noqa: N815

    def visit_ExtractFragment(self, op: Any, *, arg: Any) -> Any:  # noqa: N802
        """What follows ``#`` in a URL."""
        return self.f.anon.try_parse_url(arg, exp.convert("REF"))

    def visit_ExtractQuery(self, op: Any, *, arg: Any, key: Any) -> Any:  # noqa: N802
        """The query of a URL, or the value of one of its keys."""
        return self.f.anon.try_parse_url(arg, exp.convert("QUERY"), *(() if key is None else (key,)))

    # --- times ---

    def visit_ExtractSecond(self, op: Any, *, arg: Any) -> Any:  # noqa: N802
        """Whole seconds: EXTRACT has their fraction, too."""
        return self.f.anon.second(arg)

    def visit_ExtractIsoYear(self, op: Any, *, arg: Any) -> Any:  # noqa: N802
        """The year to which the week belongs."""
        return self.cast(self.f.anon.date_part(exp.convert("YEAROFWEEK"), arg), op.dtype)

    def visit_Time(self, op: Any, *, arg: Any) -> Any:  # noqa: N802
        """The time of day."""
        return self.cast(arg, dt.time)

    def visit_StringToTime(self, op: Any, *, arg: Any, format_str: Any) -> Any:  # noqa: N802
        """A time of day in a format of ``strftime``."""
        parsed = self.visit_StringToTimestamp(op, arg=arg, format_str=format_str)
        return self.cast(self.cast(parsed, dt.timestamp), dt.time)

    def visit_TimeFromHMS(self, op: Any, **kw: Any) -> Any:  # noqa: N802
        """``ibis.time(hours, minutes, seconds)``."""
        return self.f.anon.make_time(*kw.values())

    def visit_TimestampFromYMDHMS(self, op: Any, **kw: Any) -> Any:  # noqa: N802
        """``ibis.timestamp(year, month, day, hours, minutes, seconds)``."""
        return self.f.anon.make_timestamp_ntz(*kw.values())

    def visit_TimestampDelta(self, op: Any, *, part: Any, left: Any, right: Any) -> Any:  # noqa: N802
        """How many starts of hours, days, … are between two times."""
        unit = part.this
        starts = [self.f.anon.date_trunc(exp.convert(unit), time) for time in (right, left)]
        return self.f.anon.timestampdiff(self.v[unit.upper()], *starts)

    visit_DateDelta = visit_TimestampDelta  # noqa: N815

    def visit_TimeDelta(self, op: Any, *, part: Any, left: Any, right: Any) -> Any:  # noqa: N802
        """How many starts of hours, minutes, … are between two times of day."""
        unit = exp.convert(part.this.upper())
        return self.f.anon.time_diff(unit, *(self.f.anon.time_trunc(unit.copy(), time) for time in (right, left)))

    def visit_TimestampBucket(self, op: Any, *, arg: Any, interval: Any, offset: Any) -> Any:  # noqa: N802
        """The start of the interval in which a time is, of those that follow each other from 1970 on."""
        unit = op.interval.dtype.unit
        if unit.short not in _MICROSECONDS or not isinstance(op.interval, ops.Literal):
            raise com.UnsupportedOperationError(
                f"TimestampBucket: sqlstream has buckets of fixed size, not {unit.plural}"
            )
        size = op.interval.value * _MICROSECONDS[unit.short]
        origin = self.cast("1970-01-01 00:00:00", op.arg.dtype)
        if offset is not None:
            origin = origin + offset
        past = self.f.anon.pmod(self.f.anon.timestampdiff(self.v.MICROSECOND, origin, arg), exp.convert(size))
        return self.f.anon.timestampadd(self.v.MICROSECOND, -exp.paren(past), arg)

    # --- arrays and maps ---

    def visit_ArrayIndex(self, op: Any, *, arg: Any, index: Any) -> Any:  # noqa: N802
        """The element at a position from 0, or from the end below 0; NULL where there is none."""
        if isinstance(op.index, ops.Literal):
            value = op.index.value
            return self.f.anon.try_element_at(arg, exp.convert(value if value < 0 else value + 1))
        return self.f.anon.try_element_at(arg, self.if_(index < 0, index, index + 1))

    def visit_MapGet(self, op: Any, *, arg: Any, key: Any, default: Any) -> Any:  # noqa: N802
        """The value of a key, else the default; NULL of NULL."""
        found = super().visit_MapGet(op, arg=arg, key=key, default=default)
        return found if default is None else self.if_(sg.not_(arg.is_(NULL)), found, NULL)
