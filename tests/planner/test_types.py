"""Types of expressions, and of columns of queries."""

import pytest

from sqlstream.functions.builtin import BuiltinKind, Origin
from sqlstream.functions.catalogue import FUNCTIONS, kind_of
from sqlstream.grammar import parse_query
from sqlstream.planner.fields import Field
from sqlstream.planner.type_inference import Types
from sqlstream.types import DataType, parse_type
from tests.planner.plans import plan

COLUMNS = {
    "b": "BOOLEAN", "ti": "TINYINT", "si": "SMALLINT", "i": "INT", "l": "BIGINT", "f": "FLOAT", "d": "DOUBLE",
    "m": "DECIMAL(10, 2)", "s": "STRING", "dt": "DATE", "ts": "TIMESTAMP", "a": "ARRAY<INT>",
    "mp": "MAP<STRING, BIGINT>", "st": "STRUCT<x: INT, y: STRING>",
}  # fmt: skip

EXPRESSIONS = {
    "1": "INT", "3000000000": "BIGINT", "1.50": "DECIMAL(3, 2)", "0.05": "DECIMAL(2, 2)", "1e3": "DOUBLE",
    "'x'": "STRING", "TRUE": "BOOLEAN", "NULL": "VOID", "DATE '2020-01-01'": "DATE",
    "TIMESTAMP '2020-01-01 00:00:00'": "TIMESTAMP",
    "i + 1": "INT", "i + l": "BIGINT", "ti + si": "SMALLINT", "i * d": "DOUBLE", "i / 2": "DOUBLE", "i DIV 2": "BIGINT",
    "i % 2": "INT", "-l": "BIGINT", "f + f": "FLOAT", "f + ti": "DOUBLE", "f + l": "DOUBLE", "m + 1": "DECIMAL(11, 2)",
    "m + m": "DECIMAL(11, 2)", "m * m": "DECIMAL(21, 4)", "m / m": "DECIMAL(23, 13)", "m + i": "DECIMAL(13, 2)",
    "m - -1": "DECIMAL(11, 2)", "-7 * m": "DECIMAL(12, 2)", "(7) * m": "DECIMAL(12, 2)", "-(7) * m": "DECIMAL(21, 2)",
    "m * d": "DOUBLE", "m % 3": "DECIMAL(3, 2)", "ts + INTERVAL '1' DAY": "TIMESTAMP", "ts - ts": "INTERVAL",
    "INTERVAL '1' DAY * 2": "INTERVAL", "i > 1": "BOOLEAN", "s LIKE 'a%'": "BOOLEAN", "i IN (1, 2)": "BOOLEAN",
    "i BETWEEN 1 AND 2": "BOOLEAN", "i IS NULL": "BOOLEAN", "NOT b": "BOOLEAN", "b AND b": "BOOLEAN",
    "CASE WHEN b THEN i ELSE l END": "BIGINT",
    "CASE WHEN b THEN i END": "INT", "IF(b, m, i)": "DECIMAL(12, 2)",
    "COALESCE(i, l)": "BIGINT", "NULLIF(i, 0)": "INT", "CAST(s AS DECIMAL(5, 1))": "DECIMAL(5, 1)", "l::INT": "INT",
    "s || 'x'": "STRING", "CONCAT(s, 'x')": "STRING", "UPPER(s)": "STRING", "LENGTH(s)": "INT",
    "SPLIT(s, ',')": "ARRAY<STRING>",
    "ROUND(d, 2)": "DOUBLE", "ABS(m)": "DECIMAL(10, 2)", "FLOOR(d)": "BIGINT", "SQRT(i)": "DOUBLE",
    "YEAR(ts)": "INT", "DATE_FORMAT(ts, 'yyyy')": "STRING", "UNIX_TIMESTAMP(ts)": "BIGINT", "TO_DATE(s)": "DATE",
    "DATE_TRUNC('hour', ts)": "TIMESTAMP", "CURRENT_TIMESTAMP()": "TIMESTAMP", "TIMESTAMP_MILLIS(l)": "TIMESTAMP",
    "a[0]": "INT", "mp['k']": "BIGINT", "st.x": "INT", "ARRAY(1, 2)": "ARRAY<INT>", "SIZE(a)": "INT",
    "SORT_ARRAY(a)": "ARRAY<INT>", "MAP_KEYS(mp)": "ARRAY<STRING>", "ARRAY_JOIN(SPLIT(s, ','), '|')": "STRING",
}  # fmt: skip

AGGREGATES = {
    "COUNT(*)": "BIGINT", "COUNT(DISTINCT i)": "BIGINT", "SUM(i)": "BIGINT", "SUM(ti)": "BIGINT", "SUM(f)": "DOUBLE",
    "SUM(m)": "DECIMAL(20, 2)", "AVG(i)": "DOUBLE", "AVG(m)": "DECIMAL(14, 6)", "MIN(s)": "STRING",
    "MAX(ts)": "TIMESTAMP",
    "MAX_BY(s, i)": "STRING", "COLLECT_LIST(i)": "ARRAY<INT>", "COLLECT_SET(s)": "ARRAY<STRING>", "STDDEV(i)": "DOUBLE",
    "LISTAGG(DISTINCT s, ',')": "STRING", "BOOL_AND(b)": "BOOLEAN", "BIT_OR(l)": "BIGINT", "CORR(i, l)": "DOUBLE",
    "APPROX_COUNT_DISTINCT(s)": "BIGINT", "COUNT(*) FILTER (WHERE b)": "BIGINT", "SUM(i) / COUNT(*)": "DOUBLE",
    "SUM(i) FILTER (WHERE i > 1)": "BIGINT", "COUNT_IF(b)": "BIGINT", "ANY_VALUE(m)": "DECIMAL(10, 2)",
    "MODE(s)": "STRING",
}  # fmt: skip


# One call of every function whose result type the planner claims to know.
CALLS = [
    "approx_count_distinct(s)", "regr_count(d,d)", "try_sum(m)", "try_avg(i)", "mean(i)", "min_by(s,i)",
    "bit_and(i)", "bit_xor(l)", "max_by(m,i)", "array_agg(i)", "bool_or(b)", "every(b)", "some(b)",
    "covar_pop(d,d)", "covar_samp(d,d)", "stddev_pop(i)", "stddev_samp(i)", "std(i)", "variance(i)",
    "var_pop(i)", "var_samp(i)", "kurtosis(i)", "skewness(i)", "regr_avgx(d,d)", "regr_avgy(d,d)",
    "regr_intercept(d,d)", "regr_r2(d,d)", "regr_slope(d,d)", "regr_sxx(d,d)", "regr_sxy(d,d)", "regr_syy(d,d)",
    "lower(s)", "lcase(s)", "ucase(s)", "trim(s)", "ltrim(s)", "rtrim(s)", "btrim(s)", "substring(s,1,2)",
    "substr(s,1)", "substring_index(s,',',1)", "concat_ws(',',s,s)", "replace(s,'a','b')",
    "regexp_replace(s,'a','b')", "regexp_extract(s,'a',0)", "initcap(s)", "repeat(s,2)", "translate(s,'a','b')",
    "space(2)", "from_unixtime(l)", "split_part(s,',',1)", "md5(s)", "sha(s)", "sha1(s)", "sha2(s,256)",
    "hex(i)", "base64(s)", "chr(i)", "char(i)", "soundex(s)", "format_number(d,2)", "format_string('%s',s)",
    "printf('%s',s)", "to_json(st)", "get_json_object(s,'$.a')", "uuid()", "lpad(s,3,'x')", "rpad(s,3,'x')",
    "left(s,1)", "right(s,1)", "dayname(dt)", "monthname(dt)", "typeof(i)", "to_char(m,'999.99')", "reverse(s)",
    "reverse(a)", "concat(a,a)", "char_length(s)", "character_length(s)", "len(s)", "octet_length(s)",
    "bit_length(s)", "ascii(s)", "instr(s,'a')", "locate('a',s)", "position('a',s)", "levenshtein(s,s)",
    "find_in_set('a',s)", "cardinality(a)", "array_size(a)", "contains(s,'a')", "startswith(s,'a')",
    "endswith(s,'a')", "rlike(s,'a')", "regexp_like(s,'a')", "isnull(i)", "isnotnull(i)", "isnan(d)",
    "array_contains(a,1)", "arrays_overlap(a,a)", "map_contains_key(mp,'a')", "cbrt(d)", "exp(d)", "expm1(d)",
    "ln(d)", "log(d)", "log10(d)", "log2(d)", "log1p(d)", "power(d,2)", "pow(i,2)", "sin(d)", "cos(d)",
    "tan(d)", "asin(d)", "acos(d)", "atan(d)", "atan2(d,d)", "sinh(d)", "cosh(d)", "tanh(d)", "degrees(d)",
    "radians(d)", "rand()", "randn()", "pi()", "e()", "signum(d)", "sign(d)", "ceil(d)", "ceiling(i)",
    "floor(i)", "round(i)", "bround(d,1)", "abs(i)", "negative(l)", "positive(i)", "nullif(l,1)", "hash(i)",
    "xxhash64(i)", "crc32(s)", "factorial(i)", "nvl(i,l)", "ifnull(i,l)", "greatest(i,l)", "least(i,d)",
    "month(ts)", "day(ts)", "dayofmonth(ts)", "dayofweek(ts)", "dayofyear(ts)", "hour(ts)", "minute(ts)",
    "weekofyear(ts)", "quarter(ts)", "weekday(ts)", "datediff(dt,dt)", "to_unix_timestamp(ts)",
    "unix_millis(ts)", "unix_micros(ts)", "unix_seconds(ts)", "now()", "to_timestamp(s)", "timestamp_micros(l)",
    "timestamp_seconds(l)", "from_utc_timestamp(ts,'UTC')", "to_utc_timestamp(ts,'UTC')", "current_date()",
    "curdate()", "date_add(dt,1)", "date_sub(dt,1)", "add_months(dt,1)", "last_day(dt)", "trunc(dt,'month')",
    "next_day(dt,'Mon')", "array_distinct(a)", "array_sort(a)", "array_compact(a)", "slice(a,1,1)",
    "array_remove(a,1)", "shuffle(a)", "array_max(a)", "array_min(a)", "get(a,0)", "map_values(mp)", "unhex(s)",
    "unbase64(s)", "encode(s,'utf-8')", "datediff(day,ts,ts)", "timestampdiff(hour,ts,ts)", "to_timestamp_ltz(s)",
    "try_to_timestamp(s)",
]  # fmt: skip


def inferred(text: str) -> DataType:
    types = Types(tuple(Field(n, parse_type(t)) for n, t in COLUMNS.items()))
    expression = parse_query(f"SELECT {text}").expressions[0]
    if text == "st.x":
        expression = expression.to_dot()
        expression.this.replace(parse_query("SELECT st").expressions[0])
    return types.of(expression)


@pytest.mark.parametrize(("text", "expected"), {**EXPRESSIONS, **AGGREGATES}.items())
def test_type_is_sparks(text, expected):
    assert str(inferred(text)) == ("INTERVAL DAY TO SECOND" if expected == "INTERVAL" else expected)


@pytest.mark.parametrize(
    "text", ["s + 1", "dt + 1", "TRANSFORM(a, x -> x + 1)", "CASE WHEN b THEN s ELSE 1 END", "m * m * m * m"]
)
def test_type_is_unknown_where_only_spark_can_tell(text):
    assert inferred(text).is_unknown


def test_columns_of_a_query_have_types_and_nullability():
    schema = plan("SELECT item, n + 1, COUNT(*), window_end FROM TUMBLE(TABLE bids, DESCRIPTOR(ts), "
                  "INTERVAL '1' SECOND) GROUP BY item, n + 1, window_start, window_end").inputs[0].schema  # fmt: skip
    assert [(str(f.type), f.nullable) for f in schema] == [
        ("STRING", True), ("INT", True), ("BIGINT", False), ("TIMESTAMP", False),
    ]  # fmt: skip


@pytest.mark.spark
def test_inferred_types_are_those_of_spark(spark):
    rows = spark.createDataFrame([], ", ".join(f"{n} {t}" for n, t in COLUMNS.items()))
    texts = [*EXPRESSIONS, *AGGREGATES, *CALLS]
    kinds = {t: rows.selectExpr(f"{t} AS x").schema["x"].dataType.simpleString() for t in texts}
    wrong = {t: (inferred(t).ddl(), kind) for t, kind in kinds.items() if parse_type(kind).ddl() != inferred(t).ddl()}
    assert wrong == {}


@pytest.mark.spark
def test_function_names_are_those_of_spark(spark):
    listed = {r[0] for r in spark.sql("SHOW SYSTEM FUNCTIONS").collect() if r[0].replace("_", "").isalnum()}
    known = {name for name, function in FUNCTIONS.items() if function.origin is Origin.SPARK}
    assert listed - known == set()
    assert known - listed == set()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("SUM", BuiltinKind.AGGREGATE),
        ("explode", BuiltinKind.GENERATOR),
        ("row_number", BuiltinKind.WINDOW),
        ("upper", BuiltinKind.SCALAR),
        ("range", BuiltinKind.TABLE),
        ("nonsense", None),
    ],
)
def test_functions_have_kinds(name, kind):
    assert kind_of(name) is kind
