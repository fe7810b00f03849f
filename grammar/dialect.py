"""The sqlglot dialect ``sqlstream``: Spark's SQL with the streaming language of ``streaming.lark``.

Registered under the entry point group ``sqlglot.dialects``, so ``sqlglot.parse_one(text, read="sqlstream")`` works.
"""

from __future__ import annotations

from typing import ClassVar

from sqlglot.dialects.spark import Spark
from sqlglot.tokens import TokenType

from sqlstream.grammar.generator import SqlStreamGenerator, WithTimeGenerator
from sqlstream.grammar.parser import SqlStreamParser

_COMMANDS = ("CALL", "EXPLAIN", "OPTIMIZE", "PREPARE", "VACUUM")

# Spark knows \0 \b \n \r \t \Z \\ \' \" \% \_ (the last two keep their backslash, for LIKE), octal \ooo, \uXXXX and
# \UXXXXXXXX. It drops the backslash of all others; here that stays, so that '\d' is the regex of Flink and PostgreSQL.
_ESCAPES = {
    "\\'": "'",
    '\\"': '"',
    **{f"\\{letter}": f"\\{letter}" for letter in "afv"},  # escapes of sqlglot and of other systems
    "\\000": "\0",  # how it is printed: a digit may follow
}


class SqlStream(Spark):
    UNESCAPED_SEQUENCES = {**Spark.UNESCAPED_SEQUENCES, **_ESCAPES}  # noqa: RUF012 — sqlglot declares no ClassVar

    class Tokenizer(Spark.Tokenizer):
        DROP_UNKNOWN_ESCAPES = False
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            **{k: v for k, v in Spark.Tokenizer.KEYWORDS.items() if k not in _COMMANDS},
            "BYTES": TokenType.VARBINARY,
            "MATCH_CONDITION": TokenType.MATCH_CONDITION,
            "MATCH_RECOGNIZE": TokenType.MATCH_RECOGNIZE,
            "ROW": TokenType.STRUCT,
        }
        RAW_STRINGS: ClassVar[list[str | tuple[str, str]]] = [*Spark.Tokenizer.RAW_STRINGS, ("$$", "$$")]
        UNICODE_STRINGS: ClassVar[list[str | tuple[str, str]]] = [("U&'", "'"), ("u&'", "'")]
        STRING_ESCAPES: ClassVar[list[str]] = ["'", '"', "\\"]  # a doubled quote is a quote, as in Spark 4
        COMMANDS: ClassVar[set[TokenType]] = set()  # no statement is kept as a string
        TOKENS_PRECEDING_HINT: ClassVar[set[TokenType]] = (
            Spark.Tokenizer.TOKENS_PRECEDING_HINT
            | SqlStreamParser.ID_VAR_TOKENS
            | {TokenType.R_PAREN, TokenType.R_BRACE}
        )

    Parser = SqlStreamParser
    Generator = SqlStreamGenerator


class SparkWithTime(Spark):
    """What Spark 4 reads."""

    Generator = WithTimeGenerator
