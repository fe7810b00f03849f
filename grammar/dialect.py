"""The sqlglot dialect ``sqlstream``: Spark's SQL with the streaming language of ``streaming.lark``.

Registered under the entry point group ``sqlglot.dialects``, so ``sqlglot.parse_one(text, read="sqlstream")`` works.
"""

from __future__ import annotations

from typing import ClassVar

from sqlglot.dialects.spark import Spark
from sqlglot.tokens import TokenType

from sqlstream.grammar.generator import SqlStreamGenerator
from sqlstream.grammar.parser import SqlStreamParser

_COMMANDS = ("CALL", "EXPLAIN", "OPTIMIZE", "PREPARE", "VACUUM")


class SqlStream(Spark):
    class Tokenizer(Spark.Tokenizer):
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            **{k: v for k, v in Spark.Tokenizer.KEYWORDS.items() if k not in _COMMANDS},
            "BYTES": TokenType.VARBINARY,
            "MATCH_CONDITION": TokenType.MATCH_CONDITION,
            "MATCH_RECOGNIZE": TokenType.MATCH_RECOGNIZE,
            "ROW": TokenType.STRUCT,
        }
        STRING_ESCAPES: ClassVar[list[str]] = ["'", '"', "\\"]  # a doubled quote is a quote, as in Spark 4
        COMMANDS: ClassVar[set[TokenType]] = set()  # no statement is kept as a string
        TOKENS_PRECEDING_HINT: ClassVar[set[TokenType]] = (
            Spark.Tokenizer.TOKENS_PRECEDING_HINT | SqlStreamParser.ID_VAR_TOKENS | {TokenType.R_PAREN}
        )

    Parser = SqlStreamParser
    Generator = SqlStreamGenerator
