"""The options of Flink's LOOKUP hint, with Flink's words and defaults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from sqlglot import exp

from sqlstream.errors import shortened
from sqlstream.grammar.spans import span_of
from sqlstream.planner.binder.context import Context
from sqlstream.planner.intervals import NotAnInterval, text_ms
from sqlstream.planner.suggestions import did_you_mean
from sqlstream.udfs.lookup.options import LookupOptions, Order, Retry

_T = TypeVar("_T")
_BOOLEAN = {"true": True, "false": False}
_ORDERS = {"ordered": Order.ORDERED, "allow_unordered": Order.UNORDERED}
_RETRY = ("retry-predicate", "retry-strategy", "fixed-delay", "max-attempts")


def pairs_of(hint: exp.Expr, context: Context) -> dict[str, exp.EQ]:
    """``'key' = 'value'`` of the hint by key. SS256 for anything else."""
    pairs: dict[str, exp.EQ] = {}
    for pair in hint.expressions:
        if isinstance(pair, exp.EQ) and all(e.is_string for e in (pair.left, pair.right)):
            pairs[pair.left.name.casefold()] = pair
        else:
            context.wrong("SS256", "a LOOKUP hint has options 'key' = 'value'", pair, "Put both in single quotes.")
    return pairs


@dataclass
class Options:
    """The ``pairs`` of a hint, which are read key by key."""

    pairs: dict[str, exp.EQ]
    at: exp.Expr
    context: Context
    known: list[str] = field(default_factory=lambda: ["table"])

    def read(self, key: str, default: _T, convert: Callable[[str], _T | None], wanted: str) -> _T:
        """The value of an option; SS256 where ``convert`` gives None."""
        self.known.append(key)
        pair = self.pairs.get(key)
        if pair is None:
            return default
        value = convert(pair.right.name.strip())
        if value is None:
            self.wrong(f"option '{key}' of the LOOKUP hint must be {wanted}, not '{shortened(pair.right.name)}'", key)
        return default if value is None else value

    def wrong(self, message: str, key: str | None = None, hint: str | None = None) -> None:
        at = self.pairs.get(key or "", self.at)
        self.context.wrong("SS256", message, span_of(at) or span_of(self.at), hint)


def hinted(options: Options) -> LookupOptions:
    """The hint over the session's defaults: as in Flink asynchronous, unless it says otherwise."""
    default = options.context.settings.lookup
    asynchronous = _word(options, "async", _BOOLEAN, True)
    order = _word(options, "output-mode", _ORDERS, default.order)
    lookup_options = replace(
        default,
        asynchronous=asynchronous,
        order=order if asynchronous else Order.ORDERED,
        capacity=_whole(options, "capacity", default.capacity),
        timeout_ms=_duration(options, "timeout", default.timeout_ms),
        retries=_retries(options),
    )
    _word(options, "shuffle", _BOOLEAN, False)  # the tasks of a worker share one cache: equal keys need not meet
    for key in options.pairs:
        if key not in options.known:
            hint = did_you_mean(key, options.known, "options")
            options.wrong(f"the LOOKUP hint has no option '{key}'", key, hint)
    return lookup_options


def _retries(options: Options) -> tuple[Retry, ...]:
    """All four options or none; 'max-attempts' counts the attempts after the first."""
    _word(options, "retry-predicate", {"lookup_miss": True}, True)
    _word(options, "retry-strategy", {"fixed_delay": True}, True)
    delay = _duration(options, "fixed-delay", 0)
    times = _whole(options, "max-attempts", 1)
    given = [key for key in _RETRY if key in options.pairs]
    if not given:
        return ()
    missing = [f"'{key}'" for key in _RETRY if key not in given]
    if missing:
        options.wrong(f"the LOOKUP hint retries and lacks {', '.join(missing)}", None, _RETRY_HINT)
    return (Retry(times, delay, on_miss=True, on_error=False),)


_RETRY_HINT = (
    "Write 'retry-predicate' = 'lookup_miss', 'retry-strategy' = 'fixed_delay', 'fixed-delay' = '10s', "
    "'max-attempts' = '3'."
)


def _word(options: Options, key: str, words: dict[str, _T], default: _T) -> _T:
    return options.read(key, default, lambda text: words.get(text.lower()), " or ".join(f"'{w}'" for w in words))


_MOST_DIGITS = 9


def _whole(options: Options, key: str, default: int) -> int:
    def convert(text: str) -> int | None:
        plain = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
        return int(text) if plain and int(text) > 0 else None

    return options.read(key, default, convert, "a positive whole number")


def _duration(options: Options, key: str, default: int) -> int:
    def convert(text: str) -> int | None:
        # As in Flink, a number without a unit counts milliseconds.
        try:
            duration_ms = text_ms(f"{text} ms" if text.isascii() and text.isdigit() else text)
        except NotAnInterval:
            return None
        return duration_ms if duration_ms > 0 else None

    return options.read(key, default, convert, "a positive duration such as '10s'")
