"""Long chains of AND and OR as balanced trees: a hundred thousand operands are then seventeen levels."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp


def balanced(kind: type[exp.Connector], operands: Sequence[exp.Expr]) -> exp.Expr:
    """``a AND b AND c`` of one or more operands: a tree as flat as possible, the longer half to the left.

    AND and OR are associative for NULL as well, and the tree prints as the chain.
    """
    if len(operands) == 1:
        return operands[0]
    middle = (len(operands) + 1) // 2
    return kind(this=balanced(kind, operands[:middle]), expression=balanced(kind, operands[middle:]))


def rebalanced(chain: exp.Expr | None) -> exp.Expr | None:
    """The chain of AND or OR that was read from left to right, as a balanced tree; anything else as it is."""
    if not isinstance(chain, exp.And | exp.Or):
        return chain
    kind, operands = type(chain), list[exp.Expr]()
    left: exp.Expr = chain
    while type(left) is kind:
        operands.append(left.right)
        left = left.left
    operands.append(left)
    return balanced(kind, operands[::-1]) if len(operands) > 3 else chain
