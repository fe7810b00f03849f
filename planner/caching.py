"""Answers of plan nodes that are computed once per node: a plan asks each of its nodes, which ask those below."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

Answer = TypeVar("Answer", bound=Callable[..., Any])


def cached_per_node(answer: Answer) -> Answer:
    """``answer``, a function of one frozen node, computed once for each node and kept in its ``__dict__``.

    ``functools.cached_property`` holds a lock per class up to Python 3.11. Properties of nodes compute each other in
    any order, so two threads that plan could wait for each other's locks.
    """
    key = f"_{answer.__qualname__}"

    @wraps(answer)
    def cached(node: Any) -> Any:
        answers = vars(node)
        if key not in answers:
            answers[key] = answer(node)
        return answers[key]

    return cast("Answer", cached)
