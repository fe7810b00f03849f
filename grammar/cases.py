"""CASE: sqlglot's, made strict, with several values behind one WHEN."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from sqlstream.grammar.failures import failure, token_span
from sqlstream.grammar.strict import StrictParser

_ONE_EACH = "Write a WHEN for each value."


class CaseParser(StrictParser):
    """``CASE day WHEN 6, 7 THEN …``, of the standard and of Flink, is ``WHEN 6 THEN … WHEN 7 THEN …``."""

    def _parse_case(self) -> Any:
        if self._match(TokenType.DOT, advance=False):  # a table of this name
            return super()._parse_case()
        comments = self._prev_comments
        operand = self._parse_disjunction()
        branches: list[exp.If] = []
        while self._match(TokenType.WHEN):
            when = self._prev
            values = self._parse_csv(self._operand) if operand is not None else [self._operand()]
            if not values or not self._match(TokenType.THEN):
                self.raise_error("Expected THEN after WHEN")
            pairs = _each(values, self._operand(), when)
            branches += [self.expression(exp.If(this=value, true=result)) for value, result in pairs]
        if not branches:
            self.raise_error("Expected WHEN")
        default = self._parse_disjunction() if self._match(TokenType.ELSE) else None
        if not self._match(TokenType.END):
            self.raise_error("Expected END after CASE")
        return self.expression(exp.Case(this=operand, ifs=branches, default=default), comments=comments)

    def _operand(self) -> Any:
        operand = self._parse_disjunction()
        if operand is None:
            self.raise_error("Expected an expression")
        return operand


def _each(values: list[exp.Expr], result: exp.Expr, when: Token) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    """Each value with a result of its own, as a node has one parent."""
    if len(values) > 1 and result.find(exp.Case) is not None:
        # Copies inside of copies would make a text of n characters one of 2 to the n.
        message = "several values behind one WHEN cannot lead to another CASE"
        raise failure(message, token_span(when), hint=_ONE_EACH)
    yield values[0], result
    for value in values[1:]:
        copied = result.copy()
        for node in copied.walk():
            node.comments = None
        yield value, copied
