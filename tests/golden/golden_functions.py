"""Python functions that the golden files call."""

from __future__ import annotations

from collections.abc import Iterator


def fee(price: int) -> float:
    return price * 0.25


def words(text: str) -> Iterator[str]:
    yield from text.split()


class Product:
    """The product of the values that are not NULL."""

    def create(self) -> int:
        return 1

    def accumulate(self, state: int, value: int | None) -> int:
        return state if value is None else state * value

    def merge(self, state: int, other: int) -> int:
        return state * other

    def finish(self, state: int) -> int:
        return state
