"""Texts made by rule, not by chance: each word of the repository's SQL left out once, each keyword in each place of a
name. sqlglot takes many words for optional, and reads other systems' with them."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import Dialect

from tests.fuzz.mutation import words_of
from tests.fuzz.seeds import Seed, seeds

OPTIONAL = frozenset({
    ";", "AS", "COLUMN", "COLUMNS", "DATABASE", "DETERMINISTIC", "EXECUTE", "IS", "KEY", "LATERAL", "NULL", "OPTIMIZED",
    "PRECISION", "QUERY", "RESTRICT", "ROWS", "SCHEMA", "STREAM", "TABLE", "TBLPROPERTIES", "BEFORE", ":", ",", "ARRAY",
    "ASYMMETRIC", "ONLY", "WHERE",
})  # fmt: skip
"""Words without which a text may mean the same: ``AS``, the colon of ``STRUCT<a: INT>``, WHERE of a FILTER."""

_LONGEST = 600

# Places of names, and of what else a keyword might open.
_PLACES = (
    "TABLE {k}", "SELECT * FROM {k}", "SELECT {k} FROM t", "SELECT a AS {k} FROM t", "SELECT a {k} FROM t",
    "SELECT 1 FROM t AS {k}", "SELECT 1 FROM t {k}", "SELECT t.{k} FROM t", "SELECT {k}.a FROM t",
    "SELECT {k}(a) FROM t", "SELECT {k}() FROM t", "SELECT {k}(a, b) FROM t", "SELECT {k}(DISTINCT a) FROM t",
    "SELECT {k}(*) FROM t", "SELECT {k}(a) OVER (ORDER BY {k}) FROM t", "WITH {k} AS (SELECT 1) SELECT 1 FROM {k}",
    "SELECT 1 FROM t GROUP BY {k}", "SELECT 1 FROM t ORDER BY {k} DESC, {k}",
    "SELECT 1 FROM t JOIN {k} ON {k}.x = t.{k}", "SELECT CAST(a AS {k}) FROM t", "SELECT 1 FROM t JOIN s USING ({k})",
    "SELECT 1 FROM t WINDOW {k} AS (ORDER BY a)", "SELECT SUM(a) OVER {k} FROM t",
    "SELECT CAST(a AS STRUCT<{k}: INT>) FROM t", "SELECT {k} 'x' FROM t", "SELECT f({k} => 1) FROM t", "SELECT [{k}]",
    "SELECT f({k} -> {k} + 1) FROM t", "SELECT {k} + {k} FROM t", "SELECT NOT {k} FROM t", "SELECT {k}[1] FROM t",
    "SELECT a IS {k} FROM t", "SELECT {k} IN (1) FROM t", "SELECT CASE {k} WHEN {k} THEN {k} ELSE {k} END FROM t",
    "SELECT INTERVAL '1' {k} FROM t", "SELECT EXTRACT({k} FROM a)", "SELECT TRIM({k} FROM a)",
    "SELECT 1 FROM a {k} b", "CREATE TABLE {k} ({k} INT) WITH ('connector' = 'x')", "INSERT INTO {k} ({k}) SELECT 1",
    "SELECT a {k} b FROM t", "SELECT * EXCEPT ({k}) FROM t", "SELECT 1 FROM t LATERAL VIEW EXPLODE(a) {k} AS {k}",
    "SELECT 1 FROM t WHERE a {k}", "SELECT 1 FROM t PIVOT (SUM(a) AS {k} FOR {k} IN (1 AS {k}))",
    "SELECT 1 FROM {k}(a)", "SELECT 1 {k} SELECT 2", "SELECT 1 FROM LATERAL TABLE({k}(a)) AS q({k})",
    "SELECT 1 FROM a {k} JOIN b ON x", "SELECT 1 FROM t LIMIT {k}", "SELECT {k}(a FROM b FOR c)",
    "SELECT {k}(SELECT 1)", "SELECT {k}(a ORDER BY b)", "SELECT {k}(a IGNORE NULLS)", "SELECT {k}(a LIMIT 1)",
    "SELECT {k}(a AS b)", "SELECT {k}(a USING b)", "SELECT {k} a FROM t", "SELECT a:{k}",
)  # fmt: skip


def without_a_word() -> Iterator[tuple[Seed, str, str]]:
    """A text, a word of it, and the text without that. A word between words of the same kinds as others is left out."""
    seen: set[tuple[str, ...]] = set()
    for seed in sorted(seeds(), key=lambda s: len(s.text)):
        if len(seed.text) > _LONGEST:
            return
        words = words_of(seed.text)
        places = [i for i, word in enumerate(words) if not word.isspace() and not word.startswith(("--", "/*"))]
        kinds = ["", "", *(_kind(words[i]) for i in places), "", ""]
        for number, place in enumerate(places):
            around = tuple(kinds[number : number + 5])
            if around not in seen:
                seen.add(around)
                yield seed, words[place], "".join(words[:place] + words[place + 1 :])


def _kind(word: str) -> str:
    """A keyword, which examples write in capitals, or a sign is itself; names are alike, and so are literals."""
    if word[0].isalpha() or word[0] == "_":
        return word if word.isupper() else "name"
    return {"'": "text", "`": "name"}.get(word[0], "number" if word[0].isdigit() else word)


def keywords() -> list[str]:
    """What sqlglot or the grammar reads as more than a name."""
    dialect = Dialect.get_or_raise("sqlstream")
    parser = dialect.parser_class
    known = (dialect.tokenizer_class.KEYWORDS, parser.FUNCTION_PARSERS, parser.NO_PAREN_FUNCTION_PARSERS)
    return sorted({word for words in known for word in words if word.replace("_", "").isalpha()})


def in_every_place() -> Iterator[str]:
    for keyword in keywords():
        for place in _PLACES:
            yield place.format(k=keyword)
