"""Numbers in texts: Flink's rules, which are those of ``Long.parseLong``, ``Double.parseDouble`` and ``BigDecimal``."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.formats.text_rule import TextRule, bytes_of, has_byte, offsets_of, trimmed, where

_WHOLE = r"^[+-]?[0-9]+$"
_SIGN_AND_ZEROS = r"^\+?(-?)0*([0-9])"
_DECIMAL = r"^(?P<sign>[+-]?)(?P<whole>[0-9]*)\.?(?P<part>[0-9]*)(?:[eE](?P<power>[+-]?[0-9]{1,9}))?$"
_FLOATING = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
_SPECIAL = r"(?i)^\+?(-?)(?:(inf)(?:inity)?|(nan))$"
_DIGITS = {"TINYINT": 2, "SMALLINT": 4, "INT": 9, "BIGINT": 18}
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_LARGEST_DECIMAL = 38
_MOST = 76
"""Digits of Arrow's longest decimals."""


class NumberRule(TextRule, ABC):
    """Base class of the rules for numeric types. They convert texts with Arrow's cast."""

    def cast(self, texts: pa.Array) -> pa.Array:
        return texts.cast(self.kind.to_arrow())


class WholeNumberRule(NumberRule):
    """Parses TINYINT, SMALLINT, INT and BIGINT: decimal digits with an optional sign, without fraction or exponent."""

    def whole(self, texts: pa.Array) -> pa.Array:
        if has_byte(texts, "x", "X"):
            raise pa.ArrowInvalid("Arrow reads 0x10 as 16")
        return self.cast(texts)

    def plain(self) -> Sequence[str]:
        return (f"^-?[0-9]{{1,{_DIGITS[self.kind.name]}}}$",)

    def is_plain(self, texts: pa.Array, pattern: str) -> pa.Array:
        """Returns a mask of the texts that consist of digits only and are short enough for the type. Checking the bytes
        takes a fifth of the time of the regular expression ``pattern``, which is used if many bytes are not digits.
        """
        offsets = offsets_of(texts)
        lengths = np.diff(offsets)
        others = np.flatnonzero(bytes_of(texts)[offsets[0] : offsets[-1]] - np.uint8(ord("0")) > 9)
        if len(others) > len(texts) // 16:
            return super().is_plain(texts, pattern)
        plain = (lengths > 0) & (lengths <= _DIGITS[self.kind.name])
        plain[np.searchsorted(offsets, others + offsets[0], "right") - 1] = False
        return pa.array(plain)

    def each(self, texts: pa.Array) -> pa.Array:
        spelled = trimmed(texts)
        spelled = where(pc.match_substring_regex(spelled, _WHOLE), spelled)
        digits = pc.replace_substring_regex(spelled, _SIGN_AND_ZEROS, r"\1\2")
        numbers = where(pc.less_equal(pc.binary_length(digits), 20), digits).cast(pa.decimal128(20))
        bound = 1 << (_BITS[self.kind.name] - 1)
        least, most = (pa.scalar(n, pa.decimal128(20)) for n in (-bound, bound - 1))
        fits = pc.and_(pc.greater_equal(numbers, least), pc.less_equal(numbers, most))
        return where(fits, numbers).cast(self.kind.to_arrow())


class FloatRule(NumberRule):
    """Parses FLOAT and DOUBLE: decimal digits with an optional exponent, also NaN, Infinity and Inf in any case.

    Numbers that are too large become infinite and a suffix ``d`` or ``f`` is ignored, both as in Java.
    """

    def whole(self, texts: pa.Array) -> pa.Array:
        if has_byte(texts, "("):
            raise pa.ArrowInvalid("Arrow reads nan(1)")
        return self.cast(texts)

    def plain(self) -> Sequence[str]:
        return (r"^-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$",)

    def each(self, texts: pa.Array) -> pa.Array:
        spelled = pc.replace_substring_regex(trimmed(texts), r"([0-9.])[dDfF]$", r"\1")
        special = pc.replace_substring_regex(spelled, _SPECIAL, r"\1\2\3")
        fits = pc.or_(pc.match_substring_regex(spelled, _FLOATING), pc.match_substring_regex(spelled, _SPECIAL))
        return where(fits, special).cast(self.kind.to_arrow())


class DecimalRule(NumberRule):
    """Parses DECIMAL: decimal digits with an optional exponent, rounded half up to the scale.

    A number with more digits before the point than the type allows does not fit, while Flink reads it as NULL.
    """

    def whole(self, texts: pa.Array) -> pa.Array:
        """Casts all texts at once. Raises ArrowInvalid if one is long or has an exponent, because Arrow does not
        detect overflow: as DECIMAL(38, 38) it reads 4 as 0.597…
        """
        longest = np.diff(offsets_of(texts)).max(initial=0)
        if longest + self._size[1] > _LARGEST_DECIMAL or has_byte(texts, "e", "E"):
            raise pa.ArrowInvalid("a number that may be too large for Arrow")
        return self.cast(texts)

    def plain(self) -> Sequence[str]:
        precision, scale = self._size
        fraction = rf"(?:\.[0-9]{{1,{scale}}})?" if scale else ""
        most = precision - scale
        return (f"^-?[0-9]{{1,{most}}}{fraction}$",) if most > 0 else ()

    @property
    def _size(self) -> tuple[int, int]:
        precision, scale = self.kind.args
        assert isinstance(precision, int)
        assert isinstance(scale, int)
        return precision, scale

    def each(self, texts: pa.Array) -> pa.Array:
        precision, scale = self._size
        spelled = pc.extract_regex(trimmed(texts), _DECIMAL)
        sign, whole, part, power = (pc.struct_field(spelled, name) for name in ("sign", "whole", "part", "power"))
        digits = pc.binary_join_element_wise(whole, part, "")
        digits = where(pc.greater(pc.binary_length(digits), 0), digits)
        powers = _whole_numbers(pc.utf8_ltrim(pc.if_else(pc.equal(power, ""), "0", power), "+"))
        # One digit more than the scale decides how the others are rounded.
        kept = _shifted(pc.utf8_ltrim(digits, "0"), powers - _whole_numbers(pc.binary_length(part)) + scale + 1)
        kept = where(pc.less_equal(pc.binary_length(kept), precision + 1), kept)
        padded = pc.utf8_lpad(kept, scale + 2, "0")
        point = scale + 1
        before, behind = pc.utf8_slice_codeunits(padded, 0, -point), pc.utf8_slice_codeunits(padded, -point)
        exact = pc.binary_join_element_wise(before, behind, ".").cast(pa.decimal256(_MOST, point))
        rounded = pc.round(exact, scale, "half_towards_infinity")
        fits = pc.less(rounded, pa.scalar(Decimal(10) ** (precision - scale), exact.type))
        values = where(fits, rounded).cast(self.kind.to_arrow())
        return pc.if_else(pc.equal(sign, "-"), pc.negate(values), values)


def _shifted(digits: pa.Array, shifts: np.ndarray) -> pa.Array:
    """Texts of digits, each with as many zeros behind it as ``shifts`` says, or with so many digits fewer.

    Numbers that become longer than any decimal are cut to a length that no decimal has.
    """
    shifts = np.where(pc.equal(digits, "").fill_null(True).to_numpy(zero_copy_only=False), 0, shifts)
    shifts = np.minimum(shifts, _MOST)
    order = np.argsort(shifts, kind="stable")
    ordered = digits.take(pa.array(order))
    distinct, starts, counts = np.unique(shifts[order], return_index=True, return_counts=True)
    moved = []
    for shift, start, count in zip(distinct.tolist(), starts.tolist(), counts.tolist(), strict=True):
        equal = ordered.slice(start, count)
        if shift > 0:
            equal = pc.binary_join_element_wise(equal, "0" * shift, "")
        elif shift < 0:
            equal = pc.utf8_slice_codeunits(equal, 0, shift)
        moved.append(equal)
    return pa.concat_arrays([pa.array([], pa.string()), *moved]).take(pa.array(np.argsort(order, kind="stable")))


def _whole_numbers(texts: pa.Array) -> np.ndarray:
    """Whole numbers as int64, 0 for NULL."""
    numbers: np.ndarray = texts.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers
