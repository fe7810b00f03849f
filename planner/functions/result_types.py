"""Result types of Spark's functions, as far as they are certain; what is missing here is UNKNOWN.

A rule takes the types of a call's arguments. Sources: Spark's ``FunctionRegistry`` and the ``dataType`` of its
expressions with ANSI mode on, which is Spark 4's default; a test asks Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sqlstream.planner.functions import flink_names
from sqlstream.planner.functions.coercion import common_type
from sqlstream.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, TIMESTAMP, UNKNOWN, DataType

Rule = Callable[[Sequence[DataType]], DataType]

_BINARY, _DATE, _TINYINT, _NTZ = (DataType(n) for n in ("BINARY", "DATE", "TINYINT", "TIMESTAMP_NTZ"))


def _always(result: DataType) -> Rule:
    return lambda _: result


def _argument(index: int) -> Rule:
    """The type of an argument; what NULL becomes depends on the function."""
    return lambda types: types[index] if index < len(types) and types[index].name != "VOID" else UNKNOWN


def _number(types: Sequence[DataType]) -> DataType:
    """A function that keeps the type of a number reads texts, and NULL, as DOUBLE."""
    kind = types[0] if types else UNKNOWN
    return DOUBLE if kind.name in ("STRING", "VOID") else kind


def _common(types: Sequence[DataType]) -> DataType:
    return common_type(types)


def _sum(types: Sequence[DataType]) -> DataType:
    match types:
        case [DataType("TINYINT" | "SMALLINT" | "INT" | "BIGINT")]:
            return BIGINT
        case [DataType("FLOAT" | "DOUBLE")]:
            return DOUBLE
        case [DataType("DECIMAL", (int() as precision, scale))]:
            return DataType("DECIMAL", (min(38, precision + 10), scale))
    return UNKNOWN


def _avg(types: Sequence[DataType]) -> DataType:
    match types:
        case [DataType("DECIMAL", (int() as precision, int() as scale))]:
            return DataType("DECIMAL", (min(38, precision + 4), min(38, scale + 4))) if precision <= 34 else UNKNOWN
        case [DataType("TINYINT" | "SMALLINT" | "INT" | "BIGINT" | "FLOAT" | "DOUBLE")]:
            return DOUBLE
    return UNKNOWN


def _array_of_argument(types: Sequence[DataType]) -> DataType:
    return DataType("ARRAY", (types[0],)) if types and not types[0].is_unknown else UNKNOWN


def _element(types: Sequence[DataType]) -> DataType:
    match types:
        case [DataType("ARRAY", (DataType() as element,)), *_]:
            return element
    return UNKNOWN


def _value_by_order(types: Sequence[DataType]) -> DataType:
    """MAX_BY(a, b) is a value, MAX_BY(a, b, n) an array of n."""
    return _array_of_argument(types) if len(types) == 3 else types[0] if types else UNKNOWN


def _array_with_element(types: Sequence[DataType]) -> DataType:
    """The array, where the value beside it is of its element's type; else both become a wider one."""
    match types:
        case [DataType("ARRAY", (element,)) as array, other] if element == other:
            return array
    return UNKNOWN


def _map_part(index: int) -> Rule:
    def part(types: Sequence[DataType]) -> DataType:
        match types:
            case [DataType("MAP", members)] if isinstance(members[index], DataType):
                return DataType("ARRAY", (members[index],))
        return UNKNOWN

    return part


def _string_or_array(types: Sequence[DataType]) -> DataType:
    """CONCAT, REVERSE: arrays stay arrays, binaries are left to Spark, everything else is a string."""
    if not types or any(t.is_unknown or t.name == "BINARY" for t in types):
        return UNKNOWN
    return types[0] if types[0].name == "ARRAY" else STRING


def _same_if_integral_or_double(types: Sequence[DataType]) -> DataType:
    """CEIL and FLOOR of one argument: BIGINT for integers and doubles, left to Spark for decimals."""
    match types:
        case [DataType("TINYINT" | "SMALLINT" | "INT" | "BIGINT" | "FLOAT" | "DOUBLE")]:
            return BIGINT
    return UNKNOWN


def _round(types: Sequence[DataType]) -> DataType:
    """ROUND keeps a type; of decimals it changes precision and scale."""
    return types[0] if types and types[0].is_numeric and types[0].name != "DECIMAL" else UNKNOWN


def _map(types: Sequence[DataType]) -> DataType:
    """MAP(key, value, …): all keys have one type, and so do all values."""
    parts = (common_type(types[::2]), common_type(types[1::2]))
    known = len(types) % 2 == 0 and not any(part.is_unknown or part.name == "VOID" for part in parts)
    return DataType("MAP", parts) if known else UNKNOWN


def _with_unit(with_unit: DataType, without: DataType) -> Rule:
    """DATEDIFF(a, b) and DATEDIFF(HOUR, a, b)."""
    return lambda types: with_unit if len(types) == 3 else without


def _of(rule: Rule, names: str) -> Iterator[tuple[str, Rule]]:
    return ((name, rule) for name in names.split())


_RULES: dict[str, Rule] = {
    # aggregates
    **dict(_of(_always(BIGINT), "count count_if approx_count_distinct regr_count")),
    **dict(_of(_sum, "sum try_sum")),
    **dict(_of(_avg, "avg mean try_avg")),
    **dict(_of(_argument(0), "min max any_value mode bit_and bit_or bit_xor first last")),
    "regr_avgx": lambda types: _avg(types[1:]),
    "regr_avgy": lambda types: _avg(types[:1]),
    **dict(_of(_value_by_order, "max_by min_by")),
    **dict(_of(_argument(0), "first_value last_value percentile_disc")),
    **dict(_of(_array_of_argument, "collect_list collect_set array_agg")),
    **dict(_of(_always(BOOLEAN), "bool_and bool_or every some any")),
    **dict(_of(_always(STRING), "listagg string_agg")),
    **dict(_of(_always(DOUBLE), "corr covar_pop covar_samp stddev stddev_pop stddev_samp std variance var_pop")),
    **dict(_of(_always(DOUBLE), "var_samp kurtosis skewness regr_avgx regr_avgy regr_intercept regr_r2")),
    **dict(_of(_always(DOUBLE), "regr_slope regr_sxx regr_sxy regr_syy")),
    # strings
    **dict(_of(_always(STRING), "lower upper lcase ucase trim ltrim rtrim btrim substring substr substring_index")),
    **dict(_of(_always(STRING), "concat_ws replace regexp_replace regexp_extract initcap repeat translate space")),
    **dict(_of(_always(STRING), "date_format from_unixtime split_part md5 sha sha1 sha2 hex base64 chr char soundex")),
    **dict(_of(_always(STRING), "format_number format_string printf array_join to_json get_json_object uuid")),
    **dict(_of(_always(STRING), "lpad rpad left right overlay dayname monthname typeof to_char")),
    **dict(_of(_string_or_array, "concat reverse")),
    **dict(_of(_always(INT), "length char_length character_length len octet_length bit_length ascii instr locate")),
    **dict(_of(_always(INT), "position levenshtein find_in_set size cardinality array_size")),
    **dict(_of(_always(BOOLEAN), "contains startswith endswith like ilike rlike regexp_like regexp isnull")),
    **dict(_of(_always(BOOLEAN), "isnotnull isnan array_contains arrays_overlap map_contains_key")),
    **dict(_of(_always(DataType("ARRAY", (STRING,))), "split")),
    # numbers
    **dict(_of(_always(DOUBLE), "sqrt cbrt exp expm1 ln log log10 log2 log1p power pow sin cos tan asin acos atan")),
    **dict(_of(_always(DOUBLE), "atan2 sinh cosh tanh degrees radians rand random randn pi e signum sign")),
    **dict(_of(_same_if_integral_or_double, "ceil ceiling floor")),
    **dict(_of(_round, "round bround")),
    **dict(_of(_number, "abs negative positive")),
    **dict(_of(_argument(0), "nullif")),
    **dict(_of(_always(INT), "hash")),
    **dict(_of(_always(BIGINT), "xxhash64 crc32 factorial")),
    # conditions
    **dict(_of(_common, "coalesce nvl ifnull greatest least")),
    # time
    **dict(_of(_always(INT), "year month day dayofmonth dayofweek dayofyear hour minute weekofyear quarter weekday")),
    **dict(_of(_with_unit(BIGINT, INT), "datediff date_diff timestampdiff")),
    **dict(_of(_always(BIGINT), "unix_timestamp to_unix_timestamp unix_millis unix_micros unix_seconds")),
    **dict(_of(_always(TIMESTAMP), "current_timestamp now to_timestamp timestamp_millis timestamp_micros")),
    **dict(_of(_always(TIMESTAMP), "to_timestamp_ltz try_to_timestamp")),
    **dict(_of(_always(TIMESTAMP), "timestamp_seconds date_trunc from_utc_timestamp to_utc_timestamp")),
    **dict(_of(_always(_NTZ), "localtimestamp")),
    **dict(_of(_always(INT), "unix_date")),
    **dict(_of(_always(_DATE), "current_date curdate to_date date_sub add_months last_day trunc next_day")),
    **dict(_of(_with_unit(UNKNOWN, _DATE), "date_add dateadd timestampadd")),
    # collections
    **dict(_of(_argument(0), "array_distinct array_sort sort_array array_compact slice shuffle")),
    **dict(_of(_array_with_element, "array_remove")),
    **dict(_of(_element, "array_max array_min get")),
    "map": _map,
    **dict(_of(_map_part(0), "map_keys")),
    **dict(_of(_map_part(1), "map_values")),
    **dict(_of(_always(_BINARY), "unhex unbase64 encode")),
    **dict(_of(_always(_TINYINT), "grouping")),
    **dict(_of(_always(BIGINT), "grouping_id")),
    **dict(_of(_always(DataType("VARIANT")), "parse_json try_parse_json to_variant_object")),
    **flink_names.RESULTS,
}


def result_type(name: str, arguments: Sequence[DataType]) -> DataType:
    """The type of Spark's function ``name`` over arguments of these types, UNKNOWN where it is not certain."""
    rule = _RULES.get(name)
    return rule(arguments) if rule else UNKNOWN
