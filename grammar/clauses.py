"""Where lark takes over: does a rule of ``streaming.lark`` open here, and what does it say."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from lark.exceptions import VisitError
from sqlglot import exp
from sqlglot.tokens import TokenType

from sqlstream.grammar import driver, language
from sqlstream.grammar.build_statements import StatementBuilder
from sqlstream.grammar.expressions import ExpressionParser
from sqlstream.grammar.failures import token_span, unexpected
from sqlstream.grammar.nodes import TableHint

_BUILDER = StatementBuilder()
_ARGUMENT_WORDS = frozenset({"TABLE", "DESCRIPTOR", "INTERVAL", "CASE"})
_AFTER_KEYS = frozenset({TokenType.COMMA, TokenType.R_PAREN, TokenType.ORDER_BY})


class ClauseParser(ExpressionParser):
    """The ``Source`` that the driver reads from."""

    expected: tuple[int, list[str]] = (-1, [])
    """Where a rule of the grammar ended last, and the terminals that would have continued it."""
    completions: frozenset[str] = frozenset()
    """Words that may stand at the end of the text, offered by the hooks that looked there."""

    def offer(self, words: Iterable[str]) -> None:
        if not self._curr:
            self.completions |= frozenset(words)

    def syntax(self, start: str) -> Any:
        """The node of the grammar's rule ``start`` at this place."""
        tree = driver.parse(self, start)
        try:
            return _BUILDER.transform(tree)
        except VisitError as error:
            raise error.orig_exc from None

    def opens(self, start: str) -> bool:
        """Whether the next two words open the rule; one alone could also be a name or an alias."""
        first = driver.words(self._curr) if self._curr else []
        terminal = language.keywords().get(first[0][0]) if len(first) == 1 else None
        following = language.openings(start).get(terminal or "")
        if following is None or not self._next:
            return False
        return any(t in following for t in driver.possible(self, driver.words(self._next)[0]))

    def begins(self, start: str) -> bool:
        """Whether the next word alone is the first of the rule, where no name may stand."""
        first = driver.words(self._curr) if self._curr else []
        return bool(first) and language.keywords().get(first[0][0], "") in language.openings(start)

    def sql_terminal(self, terminal: str) -> Any:
        """The SQL that a terminal of the grammar stands for, read by sqlglot."""
        start, first, before = self._index, self._curr, self._prev
        parsed = self._terminals()[terminal]()
        if parsed is None or self._index == start:
            raise unexpected(first or None, before or None, [terminal])
        return parsed

    def _terminals(self) -> dict[str, Callable[[], Any]]:
        return {
            "QUERY": self.query,
            "CONDITION": self._parse_disjunction,
            "EXPR": self._parse_bitwise,
            "TYPE": lambda: self._parse_types(schema=True),
            "TABLE_NAME": lambda: self._parse_table_parts(schema=True),
            "KEYS": lambda: self._keys(self._parse_disjunction),
            "SORT_KEYS": lambda: self._keys(self._parse_ordered),
            "IDENT": lambda: self._parse_id_var(any_token=False),
            "HINT": self._hint_behind_name,
        }

    def _hint_behind_name(self) -> TableHint:
        token = self._curr
        return TableHint(self._parse_hint(), span=token_span(token))

    def query(self) -> Any:
        """A whole query: set operations and modifiers behind a parenthesis included."""
        parsed = self._parse_set_operations(self._parse_select(nested=True, parse_subquery_alias=False))
        return parsed if isinstance(parsed, exp.Select) else self._parse_query_modifiers(parsed)

    def _keys(self, read: Callable[[], Any]) -> list[exp.Expression]:
        """Keys of a table argument; a comma before another argument of the function ends them."""
        start = self._index
        if self._match(TokenType.L_PAREN):
            keys = self._parse_csv(read)
            self._match_r_paren()
            if self._curr.token_type in _AFTER_KEYS:
                return keys
            self._retreat(start)  # the parenthesis belongs to the first key
        keys = [read()]
        while self._curr.token_type == TokenType.COMMA and not self._at_argument(self._index + 1):
            self._advance()
            keys.append(read())
        if None in keys:
            raise self._unexpected("CONDITION")
        return keys

    def _at_argument(self, index: int) -> bool:
        return (
            self.text_at(index) in _ARGUMENT_WORDS
            or self.type_at(index) in (TokenType.NUMBER, TokenType.STRING, TokenType.L_PAREN)
            or self.type_at(index + 1) == TokenType.FARROW
        )

    def type_at(self, index: int) -> TokenType | None:
        return self._tokens[index].token_type if index < len(self._tokens) else None

    def text_at(self, index: int) -> str:
        return self._tokens[index].text.upper() if index < len(self._tokens) else ""
