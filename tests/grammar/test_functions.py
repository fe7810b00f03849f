"""Calls keep their names and arguments, in our print and in Spark's."""

from __future__ import annotations

import pytest
from sqlglot import exp

from sqlstream.errors import ParseError
from sqlstream.grammar import parse_query, to_sql

# sqlglot's Spark dialect renames or rewrites most of these.
CALLS = """
ABS(a) ADD_MONTHS(a, 1) APPROX_COUNT_DISTINCT(a) APPROX_PERCENTILE(a, 0.5) ARRAY_AGG(a) ARRAY_APPEND(a, 1)
ARRAY_CONTAINS(a, 1) ARRAY_INSERT(a, 1, 2) ARRAY_SIZE(a) ARRAY_SORT(a) ARRAY_SORT(a, b) BASE64(a) BIGINT(a) BIT_AND(a)
BIT_GET(a, 1) BOOL_AND(a) BOOLEAN(a) CEIL(a) CEILING(a) CHAR(65) CHAR_LENGTH(a) CHARACTER_LENGTH(a) CHR(65)
COLLECT_LIST(a) COLLECT_SET(a) CONCAT(a, b) CONCAT_WS('-', a, b) CONTAINS(a, b) CONV(a, 2, 10) CORR(a, b) COUNT_IF(a)
COUNT_MIN_SKETCH(a, 0.5, 0.5, 1) CURDATE() CURRENT_TIMEZONE() CURRENT_WATERMARK(ts) DATE(a) DATE_ADD(a, 1)
DATE_DIFF(a, b) DATE_FORMAT(a, 'yyyy-MM-dd') DATE_FROM_UNIX_DATE(1) DATE_PART('hour', a) DATE_SUB(a, 1)
DATE_TRUNC('HOUR', a) DATEADD(DAY, 1, a) DATEDIFF(a, b) DATEDIFF(DAY, a, b) DAY(a) DAYOFMONTH(a) DAYOFWEEK(a)
DAYOFYEAR(a) DECODE(a, 'UTF-8') DECODE(a, 1, 'x', 'y') DOUBLE(a) ELEMENT_AT(a, 1) ENDSWITH(a, b) EVERY(a)
EXPLODE(a) EXPLODE_OUTER(a) FIRST(a) FIRST(a, TRUE) FIRST_VALUE(a) FLOAT(a) FLOOR(a) FLOOR(a, 2) FORMAT_NUMBER(a, 2)
FORMAT_STRING('%d', a) FROM_JSON(a, 'x INT') FROM_UNIXTIME(a) FROM_UTC_TIMESTAMP(a, 'UTC') GET_JSON_OBJECT(a, '$.x')
GREATEST(a, b) HASH(a) HEX(a) HOP_END(a, b, c) HOP_START(a, b, c) HOUR(a) IFNULL(a, b) ILIKE(a, b) INITCAP(a) INLINE(a)
INSTR(a, b) INT(a) ISNAN(a) ISNOTNULL(a) ISNULL(a) JSON_OBJECT_KEYS(a) JSON_TUPLE(a, 'x') KURTOSIS(a) LAST(a)
LAST_DAY(a) LAST_VALUE(a) LCASE(a) LEAST(a, b) LEFT(a, 1) LEN(a) LENGTH(a) LEVENSHTEIN(a, b) LIKE(a, b) LN(a)
LOCATE(a, b) LOCATE(a, b, 2) LOG(a) LOG(2, a) LOG10(a) LOG1P(a) LOG2(a) LOWER(a) LPAD(a, 5) LTRIM(a) LTRIM(a, b)
MAKE_DATE(1, 2, 3) MAKE_TIMESTAMP(1, 2, 3, 4, 5, 6) MAP('a', 1) MAP_CONCAT(a, b) MAP_FROM_ARRAYS(a, b)
MAP_FROM_ENTRIES(a) MAP_KEYS(a) MAX(a, b) MAX_BY(a, b) MD5(a) MEDIAN(a) MIN_BY(a, b) MINUTE(a) MOD(a, b) MODE(a)
MONTH(a) MONTHS_BETWEEN(a, b) NAMED_STRUCT('x', a) NANVL(a, b) NEXT_DAY(a, 'MO') NOW() NULLIF(a, b) NVL(a, b)
NVL2(a, b, c) OCTET_LENGTH(a) PARSE_JSON(a) PARSE_URL(a, 'HOST') PERCENTILE(a, 0.5) PERCENTILE_APPROX(a, 0.5)
PERCENTILE_CONT(a, 0.5) POSEXPLODE(a) POSITION(a, b) POW(a, b) POWER(a, b) PROCTIME() QUARTER(a) RAND(1) RANDOM()
REDUCE(a, 0, f) REGEXP_COUNT(a, b) REGEXP_EXTRACT(a, b) REGEXP_EXTRACT(a, b, 0) REGEXP_LIKE(a, b)
REGEXP_REPLACE(a, b, c) REGR_SLOPE(a, b) REPEAT(a, 2) REPLACE(a, b) REVERSE(a) RIGHT(a, 1) RLIKE(a, b) ROUND(a, 2)
RPAD(a, 5, 'x') RTRIM(a) SECOND(a) SEQUENCE(a, b) SESSION_END(a, b) SESSION_START(a, b) SESSION_WINDOW(a, '5 minutes')
SHA(a) SHA1(a) SHA2(a, 256) SHIFTLEFT(a, 1) SHIFTRIGHT(a, 1) SIGN(a) SIGNUM(a) SIZE(a) SKEWNESS(a) SLICE(a, 1, 2)
SORT_ARRAY(a) SORT_ARRAY(a, FALSE) SPACE(5) SPLIT(a, b) SPLIT_PART(a, b, 1) SQRT(a) STARTSWITH(a, b) STD(a) STDDEV(a)
STDDEV_POP(a) STDDEV_SAMP(a) STR_TO_MAP(a) STRING(a) STRING_AGG(a, b) SUBSTR(a, 1, 2) SUBSTRING(a, 1, 2)
SUBSTRING_INDEX(a, b, 1) TIMESTAMP(a) TIMESTAMP_MILLIS(a) TIMESTAMP_SECONDS(a) TIMESTAMPADD(HOUR, 1, a)
TIMESTAMPDIFF(HOUR, a, b) TO_CHAR(a, '999') TO_DATE(a) TO_DATE(a, 'yyyy') TO_JSON(a) TO_NUMBER(a, '999') TO_TIMESTAMP(a)
TO_TIMESTAMP(a, 'yyyy') TO_UNIX_TIMESTAMP(a) TO_UTC_TIMESTAMP(a, 'UTC') TRANSLATE(a, b, c) TRIM(a) TRUNC(a, 'MM')
TRY_ADD(a, b) TRY_DIVIDE(a, b) TRY_ELEMENT_AT(a, 1) TRY_TO_TIMESTAMP(a) TUMBLE_END(a, b) TUMBLE_ROWTIME(a, b)
TUMBLE_START(a, b) TYPEOF(a) UCASE(a) UNBASE64(a) UNHEX(a) UNIX_DATE(a) UNIX_MILLIS(a) UNIX_SECONDS(a)
UNIX_TIMESTAMP() UNIX_TIMESTAMP(a) UNIX_TIMESTAMP(a, 'yyyy') UPPER(a) UUID() VAR_POP(a) VAR_SAMP(a) VARIANCE(a)
WEEKDAY(a) WEEKOFYEAR(a) WIDTH_BUCKET(a, 0, 1, 5) WINDOW(a, '5 minutes') WINDOW_TIME(a) XXHASH64(a) YEAR(a)
""".replace("\n", " ")


def _split(text: str) -> list[str]:
    calls = [c if c.endswith(")") else f"{c})" for c in text.strip().split(") ")]
    return [c.strip() for c in calls]


@pytest.mark.parametrize("call", _split(CALLS))
def test_a_call_prints_as_it_was_written(call: str) -> None:
    query = parse_query(f"SELECT {call} FROM t")
    assert to_sql(query.expressions[0]) == call
    assert query.expressions[0].sql(dialect="spark") == call


@pytest.mark.parametrize("call", ["COLLECT_LIST(a ORDER BY b)", "LISTAGG(DISTINCT a, ',', 'x')"])
def test_what_stands_among_the_arguments_is_kept(call: str) -> None:
    assert to_sql(parse_query(f"SELECT {call} FROM t").expressions[0]) == call


def test_the_spelling_of_a_function_is_kept() -> None:
    assert to_sql(parse_query("SELECT my_Function(a), `odd name`(b), db.f(c) FROM t")) == (
        "SELECT my_Function(a), `odd name`(b), db.f(c) FROM t"
    )


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        ("COUNT(*)", exp.Count),
        ("count(DISTINCT a)", exp.Count),
        ("SUM(a)", exp.Sum),
        ("AVG(a)", exp.Avg),
        ("MIN(a)", exp.Min),
        ("MAX(a)", exp.Max),
        ("COLLECT_LIST(a)", exp.ArrayAgg),
        ("COLLECT_SET(a)", exp.ArrayUniqueAgg),
        ("LISTAGG(a, ',')", exp.GroupConcat),
        ("COALESCE(a, b)", exp.Coalesce),
        ("CAST(a AS INT)", exp.Cast),
        ("TRY_CAST(a AS INT)", exp.TryCast),
        ("CASE WHEN a THEN b END", exp.Case),
        ("MAX(a, b)", exp.Anonymous),
        ("UPPER(a)", exp.Anonymous),
    ],
)
def test_few_calls_have_nodes_of_their_own(call: str, kind: type[exp.Expression]) -> None:
    assert type(parse_query(f"SELECT {call}").expressions[0]) is kind


@pytest.mark.parametrize(
    ("text", "spark"),
    [
        ("LISTAGG(a)", "LISTAGG(a, ',')"),
        ("LISTAGG(DISTINCT a)", "LISTAGG(DISTINCT a, ',')"),
        ("LISTAGG(a, '')", "LISTAGG(a, '')"),
        ("LISTAGG(DISTINCT a, ',') WITHIN GROUP (ORDER BY b)", "LISTAGG(DISTINCT a, ',') WITHIN GROUP (ORDER BY b)"),
        ("TIMESTAMPDIFF(day, a, b)", "TIMESTAMPDIFF(DAY, a, b)"),
        ("DATEADD(`day`, 1, b)", "DATEADD(`day`, 1, b)"),
        ("MAP['k', 1]", "MAP('k', 1)"),
        ("MAP['k', 1]['k']", "MAP('k', 1)['k']"),
        ("map['k', MAP['l', 1]]['k']['l']", "MAP('k', MAP('l', 1))['k']['l']"),
        ("ROW(1, a)", "STRUCT(1, a)"),
        ("ARRAY[1, 2]", "ARRAY(1, 2)"),
        ("SUBSTRING(a FROM 2 FOR 3)", "SUBSTRING(a, 2, 3)"),
        ("POSITION('x' IN a)", "LOCATE('x', a)"),
        ("EXTRACT(HOUR FROM ts)", "EXTRACT(HOUR FROM ts)"),
        ("a <=> b", "a IS NOT DISTINCT FROM b"),
        ("a IS NOT DISTINCT FROM b", "a IS NOT DISTINCT FROM b"),
        ("INTERVAL 5 DAYS 3 HOURS", "(INTERVAL '5' DAYS + INTERVAL '3' HOURS)"),
        ("INTERVAL '0.005' SECOND", "INTERVAL '0.005' SECOND"),
        ("INTERVAL '33:20' MINUTE TO SECOND", "INTERVAL '33:20' MINUTE TO SECOND"),
        ("'it''s'", "'it\\'s'"),
        ("a DIV 2", "a DIV 2"),
        ("SUM(a) FILTER (WHERE b)", "SUM(a) FILTER(WHERE b)"),
        ("TRY_CAST(a AS INT)", "TRY_CAST(a AS INT)"),
        ("CAST(a AS TIMESTAMP_LTZ(3))", "CAST(a AS TIMESTAMP_LTZ)"),
    ],
)
def test_flinks_forms_print_for_spark(text: str, spark: str) -> None:
    printed = parse_query(f"SELECT {text}").expressions[0].sql(dialect="spark")
    assert printed in (spark, spark.replace("\\'", "''"))


def test_a_map_needs_a_value_for_each_key() -> None:
    with pytest.raises(ParseError, match="SS101: MAP has a key without a value"):
        parse_query("SELECT MAP['k', 1, 'l'] FROM t")


def test_a_map_column_is_read_not_constructed() -> None:
    assert isinstance(parse_query("SELECT map['k'] FROM t").expressions[0], exp.Bracket)


def test_only_struct_takes_aliases() -> None:
    assert to_sql(parse_query("SELECT STRUCT(a AS b)")) == "SELECT STRUCT(a AS b)"
    with pytest.raises(Exception, match="unexpected"):
        parse_query("SELECT f(a b)")
