"""Where lark takes over: does a rule of ``streaming.lark`` open here, and what does it say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Protocol

from lark import Token as LarkToken
from lark import Tree
from lark.exceptions import VisitError
from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from sqlstream.grammar import language
from sqlstream.grammar.build_statements import StatementBuilder
from sqlstream.grammar.expressions import ExpressionParser
from sqlstream.grammar.failures import bare_interval, token_span, unexpected
from sqlstream.grammar.language import END, States, Tables
from sqlstream.grammar.nodes import TableHint

# --- drives lark through the tokens of a sqlglot parser, which is called back wherever SQL stands inside a clause
# At each word the automaton says which keywords fit and whether an expression, a query, a type or a name is wanted.
# Where several fit, the one wins after which the next word fits as well: that settles ``n ROWS`` against an
# expression, ``name =>`` against a column and a column named like a keyword.


Word = tuple[str, Token]
"""Upper-case text and token; tokens such as ``PARTITION BY`` make two words."""


class Source(Protocol):
    """The part of the SQL parser that parsing by the lark grammar needs: its tokens, its position among them, and
    methods that parse the SQL inside a clause with sqlglot.
    """

    ID_VAR_TOKENS: ClassVar[set[TokenType]]
    expected: tuple[int, list[str]]
    _tokens: list[Token]
    _index: int

    def _advance(self, times: int = 1) -> None: ...

    def opens(self, start: str) -> bool: ...

    def offer(self, words: Iterable[str]) -> None: ...

    def sql_terminal(self, terminal: str) -> object: ...


QUERY_STARTS = frozenset({
    TokenType.SELECT, TokenType.WITH, TokenType.VALUES, TokenType.L_PAREN, TokenType.TABLE,
})  # fmt: skip
_LITERALS = {TokenType.STRING: "STRING", TokenType.RAW_STRING: "STRING", TokenType.NUMBER: "NUMBER"}
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.COMMA, TokenType.SEMICOLON, TokenType.FARROW, TokenType.EQ})
_NOT_KEYWORDS = frozenset({TokenType.STRING, TokenType.RAW_STRING, TokenType.NUMBER, TokenType.IDENTIFIER})
_FIRST_WORDS = frozenset({"DESCRIPTOR", "TABLE"})  # never the beginning of an expression
_SQL = ("QUERY", "CONDITION", "EXPR", "TYPE", "TABLE_NAME", "KEYS", "SORT_KEYS")


def words_from(source: Source, index: int) -> Iterator[Word]:
    """Yields the words of the parser's tokens, from the token at ``index`` on."""
    for token in source._tokens[index:]:
        yield from words(token)


def words(token: Token) -> list[Word]:
    """The upper-case words of a token; ``PARTITION BY`` is one token of two words."""
    if token.token_type in _NOT_KEYWORDS:
        return [("", token)]
    if token.token_type == TokenType.DQMARK:  # "A??" of a pattern
        return [("?", token), ("?", token)]
    return [(word, token) for word in token.text.upper().split()] or [("", token)]


def parse(source: Source, start: str) -> Tree[Any]:
    """Parses the longest text at the current position that the grammar rule ``start`` matches, and returns lark's tree.
    The parser then is after that text.
    """
    automaton = language.tables(start)
    cursor = language.lark_parser().parse_interactive(start=start)
    stack: States = (automaton.start,)
    pending: list[Word] = []
    while True:
        pending = pending or next_words(source)
        terminal = choose(automaton, stack, source, pending)
        if terminal is None:
            source.expected = source._index, automaton.accepted(stack)
            source.offer(language.readable(t).strip('"') for t in source.expected[1] if t != END)
            break
        following = automaton.after(stack, terminal)
        assert following is not None
        stack = following
        cursor.feed_token(_take(source, terminal, pending))
    split = bool(pending) and len(pending) < len(words(pending[0][1]))
    if split or automaton.after(stack, END) is None:
        raise unexpected(_current(source), _previous(source), source.expected[1])
    if meant := bare_interval(_previous(source), _current(source)):
        raise meant
    tree: Tree[Any] = cursor.feed_token(LarkToken(END, ""))
    return tree


def next_words(source: Source) -> list[Word]:
    """The words of the current token; empty at the end of the text."""
    token = _current(source)
    return words(token) if token is not None else []


def choose(automaton: Tables, stack: States, source: Source, pending: list[Word]) -> str | None:
    """Decides as which terminal of the grammar the next word is read. Returns None if the word does not continue the
    clause, which then ends before it. ``stack`` is the state of the LALR automaton, ``pending`` the words of the
    current token that are not read yet.
    """
    if not pending:
        return None
    word, whole = pending[0], len(pending) == len(words(pending[0][1]))
    fitting = [t for t in possible(source, word, whole) if automaton.after(stack, t) is not None]
    upcoming = pending[1] if len(pending) > 1 else next(words_from(source, source._index + 1), None)
    continuing = [t for t in fitting if _continues(automaton, stack, source, t, upcoming)]
    if continuing:
        return continuing[0]
    if upcoming is None and fitting:
        return next((t for t in fitting if t != "IDENT"), "IDENT")
    another = automaton.nested and source.opens("stream_clause") and automaton.after(stack, END) is not None
    return fitting[0] if fitting and not another else None


def possible(source: Source, word: Word, whole: bool = True) -> list[str]:
    """The terminals of the grammar that a word can be, the most specific first: those of its keyword, of a name, and of
    SQL that may begin with it. ``whole``: the word is a whole token, and not one of two words of a token such as
    ``PARTITION BY``.
    """
    text, token = word
    terminals = [language.keywords()[text]] if text in language.keywords() else []
    if token.token_type in _LITERALS:
        terminals.append(_LITERALS[token.token_type])
    if token.token_type == TokenType.HINT:
        return ["HINT"]
    if not whole:
        return terminals
    if token.token_type in source.ID_VAR_TOKENS:
        terminals.append("IDENT")
    if text == "TABLE":
        terminals.append("QUERY")
    elif token.token_type not in _CLOSING and text not in _FIRST_WORDS:
        terminals += [t for t in _SQL if t != "QUERY" or token.token_type in QUERY_STARTS]
    return terminals


def _continues(automaton: Tables, stack: States, source: Source, terminal: str, upcoming: Word | None) -> bool:
    following = automaton.after(stack, terminal)
    assert following is not None
    if automaton.after(following, END) is not None and (upcoming is None or automaton.nested):
        return True
    if upcoming is None:
        return False
    return terminal in _SQL or any(automaton.after(following, t) is not None for t in possible(source, upcoming))


def _take(source: Source, terminal: str, pending: list[Word]) -> LarkToken:
    """Consume the terminal from the source, as a lark token that carries its value and place."""
    token = pending[0][1]
    if terminal in _SQL or terminal in ("IDENT", "HINT"):
        value: object = source.sql_terminal(terminal)
        pending.clear()
    else:
        value = token.text if terminal in _LITERALS.values() else pending[0][0]
        del pending[0]
        if not pending:
            source._advance()
    last = _previous(source) if not pending else token
    assert last is not None
    consumed = LarkToken(terminal, terminal, start_pos=token.start, end_pos=last.end + 1)
    consumed.value = value
    return consumed


def _current(source: Source) -> Token | None:
    return source._tokens[source._index] if source._index < len(source._tokens) else None


def _previous(source: Source) -> Token | None:
    return source._tokens[source._index - 1] if 0 < source._index <= len(source._tokens) else None


_BUILDER = StatementBuilder()
_ARGUMENT_WORDS = frozenset({"TABLE", "DESCRIPTOR", "INTERVAL", "CASE"})
_AFTER_KEYS = frozenset({TokenType.COMMA, TokenType.R_PAREN, TokenType.ORDER_BY})


class ClauseParser(ExpressionParser):
    """Lets the parser parse clauses by the lark grammar at its current position (see ``Source``)."""

    expected: tuple[int, list[str]] = (-1, [])
    """Where a rule of the grammar ended last, and the terminals that would have continued it."""
    completions: frozenset[str] = frozenset()
    """Words that may stand at the end of the text, offered by the hooks that looked there."""

    def offer(self, words: Iterable[str]) -> None:
        if not self._curr:
            self.completions |= frozenset(words)

    def syntax(self, start: str) -> Any:
        """Parses the grammar rule ``start`` at the current position and returns its syntax node."""
        tree = parse(self, start)
        try:
            return _BUILDER.transform(tree)
        except VisitError as error:
            raise error.orig_exc from None

    def opens(self, start: str) -> bool:
        """True if the next two words begin the rule ``start``. One word alone could also be a name or an alias."""
        first = words(self._curr) if self._curr else []
        terminal = language.keywords().get(first[0][0]) if len(first) == 1 else None
        following = language.openings(start).get(terminal or "")
        if following is None or not self._next:
            return False
        return any(t in following for t in possible(self, words(self._next)[0]))

    def begins(self, start: str) -> bool:
        """True if the next word begins the rule ``start``. For positions at which no name is allowed."""
        first = words(self._curr) if self._curr else []
        return bool(first) and language.keywords().get(first[0][0], "") in language.openings(start)

    def sql_terminal(self, terminal: str) -> Any:
        """Parses the SQL that a terminal of the grammar stands for (an expression, a query, …) with sqlglot, and
        returns its tree.
        """
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
        """Parses a whole query, with set operations and with ORDER BY or LIMIT after a closing parenthesis."""
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
