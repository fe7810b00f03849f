"""Answers about nodes that are kept with the node: a plan is asked about each of its nodes, which ask those below."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

Question = TypeVar("Question", bound=Callable[..., Any])


def remembered(question: Question) -> Question:
    """The question, a function of one frozen node, that computes its answer once for each node.

    What a ``singledispatch`` function offers besides, such as ``register``, stays on it.
    """
    key = f"_{question.__name__}"

    @wraps(question)
    def asked(node: Any) -> Any:
        answers = vars(node)
        if key not in answers:
            answers[key] = question(node)
        return answers[key]

    return cast("Question", asked)
