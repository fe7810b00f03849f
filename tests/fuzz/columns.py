"""Random expressions of the forms that tasks compute over columns, and random rows, for a comparison with Spark."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

COLUMNS = {
    "b": "BOOLEAN", "ti": "TINYINT", "si": "SMALLINT", "i": "INT", "l": "BIGINT", "m": "DECIMAL(10, 2)",
    "w": "DECIMAL(18, 6)", "s": "STRING", "u": "STRING", "d": "DOUBLE", "ts": "TIMESTAMP", "dt": "DATE",
}  # fmt: skip

_LEAST = {"ti": -(2**7), "si": -(2**15), "i": -(2**31), "l": -(2**63)}
_TEXTS = (
    "",
    "a",
    "A",
    "é",
    "z\U0001f600",
    "a/b",
    "/",
    "//",
    "a//b/c",
    "x\ny",
    "_",
    "100%",
    "İ/ı",
    "http://x.y/ü?q=1",
    "ΑΣ",
    "ΣΑΣ ς.",
    "ẞǄ",
    "Ω/K",
)
_PATTERNS = ("%", "", "a%", "%b", "%/%", "_", "a_b", "%é%", "x_y", "z_", "%%a", "_%_", "h%.%", "[a]%", ".*", "(", "a+")
_SEPARATORS = ("/", "//", "a", "é", ".", "|", "\U0001f600")
_EXPRESSIONS = (
    "'(a|/|^)([^/]*)', 2", "'a+?', 0",
    "'[a-z]*', 0", "'(x|a)/?(b)', 1", "'^(h[^:]*):', 1", "'q=|()', 1", "'((a)|z)', 2",
)  # fmt: skip
_FORMATS = ("yyyy-MM-dd", "HH:mm", "yyyy-MM-dd HH:mm:ss", "dd.MM.yyyy", "yyyy", "MM/dd, HH", "yyyy-MM-dd''T''HH", "ss")
_DECIMALS = ("0.908", "1.5", "0.1", "12.34", "99999999.99", "0.000001", "-1.5", "-7")
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")


def random_rows(random: Random, count: int) -> list[dict[str, object]]:
    """Rows of ``COLUMNS`` as JSON, with NULLs, extremes and letters of all kinds."""
    return [{name: _value(name, random) for name in COLUMNS if random.random() < 0.85} for _ in range(count)]


def _value(name: str, random: Random) -> object:
    match name:
        case "b":
            return random.random() < 0.5
        case "ti" | "si" | "i" | "l":
            least = _LEAST[name]
            return random.choice((least, least + 1, -1, 0, 1, 2, 7, -least - 1, random.randrange(least, -least)))
        case "m":
            return random.choice((-99999999.99, 99999999.99, 0, -0.01, 1.5, random.randrange(-9999, 9999) / 100))
        case "w":
            return random.choice((0.000001, -1.5, 123456.789012, 0, random.randrange(-9999, 9999) / 1000))
        case "d":
            return random.choice((0.0, -0.0, 1.5, -1e308, 1e-300, 1e308))
        case "ts":
            year, month = random.choice(("0001", "1890", "1969", "2024", "9999")), random.choice(("01", "07"))
            date = f"{year}-{month}-{random.randrange(1, 29):02}"
            return f"{date} {random.randrange(24):02}:{random.choice(('00', '29'))}:0{random.randrange(10)}"
        case "dt":
            return f"2024-0{random.randrange(1, 9)}-11"
    return random.choice((*_TEXTS, "".join(random.choices("ab/é_%.", k=random.randrange(9)))))


def random_expression(random: Random, depth: int = 3) -> str:
    """An expression of one of the forms; some are not computed by tasks, for instance where decimals may overflow."""
    form = random.choice((_condition, _decimal, _text, _chosen, _remainder))
    return form(random, depth)


def _condition(random: Random, depth: int) -> str:
    if depth and random.random() < 0.5:
        left, right = _condition(random, depth - 1), _condition(random, depth - 1)
        of_one = f"({left}) IS {random.choice(('TRUE', 'NULL', 'NOT FALSE'))}"
        forms = (f"({left} AND {right})", f"({left} OR {right})", f"NOT ({left})", of_one)
        return random.choice(forms)
    whole = random.choice(("ti", "si", "i", "l"))
    compared = random.choice(_COMPARISONS)
    return random.choice((
        "b",
        f"{random.choice(list(COLUMNS))} IS {random.choice(('', 'NOT '))}NULL",
        f"{whole} {compared} {random.choice(('ti', 'i', 'l', '7', '-1', '9223372036854775807'))}",
        f"{whole} {random.choice(('', 'NOT '))}BETWEEN -3 AND {random.choice(('7', 'l'))}",
        f"{whole} {random.choice(('', 'NOT '))}IN (1, -1, 7)",
        f"s {compared} {random.choice(('u', chr(39) + 'a' + chr(39)))}",
        f"s {random.choice(('', 'NOT '))}LIKE '{random.choice(_PATTERNS)}'",
        f"{_decimal(random, 1)} {compared} {random.choice((*_DECIMALS, 'm', 'w', 'i', '1000000', 'l'))}",
        f"{_text(random, 1)} {compared} {random.choice((_text(random, 1), chr(39) + 'a' + chr(39)))}",
        f"{_text(random, 1)} IS NULL",
        f"d {compared} d",
        f"ts {compared} ts",
        f"dt {compared} dt",
        f"{_remainder(random, 0)} = 1",
    ))  # fmt: skip


def _decimal(random: Random, depth: int) -> str:
    left = random.choice(("m", "w", *_DECIMALS, "l", "i", "si", "ti"))
    right = random.choice(("m", "w"))
    left = f"({_decimal(random, 0)})" if depth and random.random() < 0.3 else left
    return f"{left} {random.choice('+-*')} {right}"


def _text(random: Random, depth: int) -> str:
    text = random.choice("su") if not depth or random.random() < 0.7 else _text(random, depth - 1)
    form = random.randrange(5)
    if form == 4:
        return f"DATE_FORMAT(ts, '{random.choice(_FORMATS)}')"
    if form == 0:
        return f"LOWER({text})"
    if form == 1:
        return f"NULLIF({text}, {random.choice((*'su', chr(39) * 2, chr(39) + 'a' + chr(39)))})"
    if form == 2:
        return f"REGEXP_EXTRACT({text}, {random.choice(_EXPRESSIONS)})"
    return f"SPLIT_INDEX({text}, '{random.choice(_SEPARATORS)}', {random.choice((0, 1, 2, 7))})"


def _remainder(random: Random, depth: int) -> str:
    column, by = random.choice(("ti", "si", "i", "l")), random.choice((1, 2, 7, -3, 123))
    return random.choice((f"MOD({column}, {by})", f"{column} % {by}", "HOUR(ts)"))


def _chosen(random: Random, depth: int) -> str:
    form: Callable[[Random, int], str] = random.choice(
        (_text, _remainder, lambda r, _: r.choice(("s", "u", "'é'", "7", "-7")))
    )
    first, second = form(random, depth), form(random, depth)
    condition = _condition(random, 1)
    return random.choice((
        f"CASE WHEN {condition} THEN {first} WHEN b THEN {second} END",
        f"CASE WHEN {condition} THEN NULL ELSE {second} END",
        f"IF({condition}, {first}, {second})",
        f"COALESCE({first}, {second})",
    ))  # fmt: skip
