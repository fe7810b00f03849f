"""Decorators for what the annotations of a Python function cannot say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar


@dataclass(frozen=True)
class Options:
    """The arguments of a decorator; ``returns`` is a type in SQL."""

    returns: str | None = None
    vectorized: bool = False
    deterministic: bool = True
    asynchronous: bool = False
    batch: bool = False


_F = TypeVar("_F", bound=Callable[..., object])


def scalar(*, returns: str | None = None, vectorized: bool = False, deterministic: bool = True) -> Callable[[_F], _F]:
    """One result per row. ``vectorized`` functions get and return Arrow arrays or pandas Series of equal length."""
    return _marked(Options(returns, vectorized, deterministic))


def aggregate(*, returns: str) -> Callable[[_F], _F]:
    """One result per group, for types that no annotation spells."""
    return _marked(Options(returns))


def table(*, returns: str) -> Callable[[_F], _F]:
    """Any number of rows per row; ``returns`` is the STRUCT of a row."""
    return _marked(Options(returns))


def lookup(*, returns: str | None = None, batch: bool = False) -> Callable[[_F], _F]:
    """A coroutine for LOOKUP ASYNC; ``returns`` is the STRUCT of a row, or the type of a row's one value.

    With ``batch`` it gets a list per parameter, of equal lengths, and returns a list with an answer per key.
    """
    return _marked(Options(returns, asynchronous=True, batch=batch))


def _marked(options: Options) -> Callable[[_F], _F]:
    def mark(function: _F) -> _F:
        function.__sqlstream__ = options  # type: ignore[attr-defined]
        return function

    return mark


def options_of(implementation: object) -> Options:
    """The options of a decorated function or class; defaults if it is not decorated."""
    options = getattr(implementation, "__sqlstream__", None)
    return options if isinstance(options, Options) else Options()
