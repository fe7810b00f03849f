"""The names of lambdas: ``x -> x + 1`` reads an argument, where sqlglot's parser reads a column first."""

from __future__ import annotations

from collections import Counter

from sqlglot import exp


def name_arguments(outermost: exp.Lambda) -> None:
    """Makes arguments of what names those of the lambdas around it, looking at each node once."""
    arguments: Counter[str] = Counter()
    waiting: list[tuple[exp.Expr, bool]] = [(outermost, True)]
    while waiting:
        node, enters = waiting.pop()
        if isinstance(node, exp.Lambda):
            (arguments.update if enters else arguments.subtract)(argument.name for argument in node.expressions)
            if enters:
                waiting.append((node, False))
        if isinstance(node, exp.Column) and arguments[node.parts[0].name] > 0:
            _name_argument(node)
        elif enters:
            waiting += [(child, True) for child in node.iter_expressions()]


def _name_argument(column: exp.Column) -> None:
    """As sqlglot does: the column, with the members behind it, becomes a name or a chain of dots."""
    argument = column.to_dot() if column.table else column.this
    replaced: exp.Expr = column
    while isinstance(replaced.parent, exp.Dot):
        replaced = replaced.parent
    replaced.replace(argument)
