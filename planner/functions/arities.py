"""How many arguments Spark's functions take, which a test asks Spark, and those of Flink's that are added."""

from __future__ import annotations

from sqlstream.planner.functions import flink_names

_BY_COUNTS: dict[str, str] = {
    "0": (
        "curdate current_catalog current_database current_date current_path current_schema current_timezone "
        "current_user e input_file_block_length input_file_block_start input_file_name monotonically_increasing_id "
        "pi session_user spark_partition_id user version"
    ),
    "0 1": "current_time current_timestamp localtime localtimestamp now rand randn random uuid",
    "0 1 2": "make_ym_interval mode unix_timestamp",
    "0 1 2 3 4": "make_dt_interval",
    "0 1 2 3 4 5 6 7": "make_interval",
    "1": (
        "abs acos acosh any array_agg array_compact array_distinct array_max array_min array_size ascii asin asinh "
        "atan atanh avg base64 bigint bin binary bit_and bit_count bit_length bit_or bit_xor bitmap_and_agg "
        "bitmap_bit_position bitmap_bucket_number bitmap_construct_agg bitmap_count bitmap_or_agg bool_and bool_or "
        "boolean cardinality cbrt char char_length character_length chr collation collect_list collect_set "
        "collect_union cos cosh cot count_if crc32 csc date date_from_unix_date day dayname dayofmonth dayofweek "
        "dayofyear decimal degrees double every exp expm1 factorial flatten float from_base32 hex "
        "hll_sketch_estimate initcap int is_valid_utf8 is_valid_variant is_variant_null isnan isnotnull isnull "
        "json_array_length json_object_keys kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float "
        "kll_sketch_to_string_bigint kll_sketch_to_string_double kll_sketch_to_string_float kurtosis last_day lcase "
        "len length ln log10 log1p log2 lower luhn_check make_valid_utf8 map_entries map_from_entries map_keys "
        "map_values max md5 mean measure median min month monthname negative nullifzero octet_length parse_json "
        "percentile_cont percentile_disc positive quarter quote radians raise_error reverse rint schema_of_variant "
        "schema_of_variant_agg sec sha sha1 sign signum sin sinh size skewness smallint some soundex space sqrt "
        "st_geogfromwkb st_srid std stddev stddev_pop stddev_samp string sum tan tanh theta_intersection_agg "
        "theta_sketch_estimate time time_from_micros time_from_millis time_from_seconds time_to_micros "
        "time_to_millis time_to_seconds timestamp timestamp_micros timestamp_millis timestamp_nanos "
        "timestamp_seconds tinyint to_base32 to_variant_object try_avg try_parse_json try_sum try_url_decode "
        "try_validate_utf8 tuple_sketch_estimate_double tuple_sketch_estimate_integer tuple_sketch_theta_double "
        "tuple_sketch_theta_integer typeof ucase unbase64 unhex unix_date unix_micros unix_millis unix_nanos "
        "unix_seconds upper url_decode url_encode validate_utf8 var_pop var_samp variance vector_avg vector_sum "
        "weekday weekofyear year zeroifnull"
    ),
    "1 2": (
        "any_value approx_count_distinct approx_top_k_accumulate approx_top_k_combine approx_top_k_estimate "
        "array_sort assert_true bround btrim ceil ceiling first first_value floor from_unixtime hll_sketch_agg "
        "hll_union_agg kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint "
        "kll_sketch_agg_double kll_sketch_agg_float last last_value listagg log ltrim randstr round rtrim "
        "schema_of_avro schema_of_csv schema_of_json schema_of_xml shuffle sort_array st_asbinary st_geomfromwkb "
        "string_agg theta_sketch_agg theta_union_agg to_avro to_binary to_csv to_date to_json to_time to_timestamp "
        "to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_xml trim try_to_binary try_to_date try_to_time "
        "try_to_timestamp tuple_intersection_agg_double tuple_intersection_agg_integer tuple_sketch_summary_double "
        "tuple_sketch_summary_integer variant_strip_nulls vector_norm vector_normalize"
    ),
    "1 2 3": "approx_top_k sentences str_to_map tuple_union_agg_double tuple_union_agg_integer",
    "1 2 3 4 5": "mask",
    "1 2 3 4 5 6 7": "try_make_interval",
    "1 2 3 6 7": "make_timestamp try_make_timestamp",
    "2": (
        "add_months array_append array_contains array_except array_intersect array_position array_prepend "
        "array_remove array_repeat array_union arrays_overlap atan2 bit_get collate contains corr covar_pop "
        "covar_samp date_add date_diff date_format date_part date_sub date_trunc dateadd datediff datepart "
        "element_at encode endswith equal_null exists filter find_in_set forall format_number from_utc_timestamp "
        "get get_json_object getbit histogram_numeric hypot ifnull jaro_winkler_similarity "
        "kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double kll_sketch_get_quantile_float "
        "kll_sketch_get_rank_bigint kll_sketch_get_rank_double kll_sketch_get_rank_float kll_sketch_merge_bigint "
        "kll_sketch_merge_double kll_sketch_merge_float left map_contains_key map_filter map_from_arrays mod nanvl "
        "next_day nullif nvl pmod pow power regexp_count regexp_like regexp_substr regr_avgx regr_avgy regr_count "
        "regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy repeat right sha2 shiftleft shiftright "
        "shiftrightunsigned st_setsrid startswith theta_difference theta_intersection time_trunc to_char to_number "
        "to_utc_timestamp to_varchar transform transform_keys transform_values trunc try_add try_divide "
        "try_element_at try_mod try_multiply try_subtract try_to_number tuple_difference_double "
        "tuple_difference_integer tuple_difference_theta_double tuple_difference_theta_integer "
        "vector_cosine_similarity vector_inner_product vector_l2_distance xpath xpath_boolean xpath_double "
        "xpath_float xpath_int xpath_long xpath_number xpath_short xpath_string"
    ),
    "2 3": (
        "approx_percentile array_join convert_timezone from_avro from_csv from_json from_xml hll_union hmac "
        "levenshtein locate lpad max_by min_by months_between parse_url percentile percentile_approx position "
        "regexp_extract regexp_extract_all regexp_instr replace rpad sequence split substr substring theta_union "
        "time_bucket try_parse_url try_variant_get tuple_intersection_double tuple_intersection_integer "
        "tuple_intersection_theta_double tuple_intersection_theta_integer uniform variant_get"
    ),
    "2 3 4": (
        "from_protobuf instr to_protobuf tuple_sketch_agg_double tuple_sketch_agg_integer tuple_union_double "
        "tuple_union_integer tuple_union_theta_double tuple_union_theta_integer"
    ),
    "2 3 4 5": "aes_decrypt try_aes_decrypt",
    "2 3 4 5 6": "aes_encrypt",
    "2 3 6 7": "make_timestamp_ltz try_make_timestamp_ltz",
    "2 6": "make_timestamp_ntz try_make_timestamp_ntz",
    "3": (
        "array_insert conv if make_date make_time map_zip_with nvl2 slice split_part substring_index time_diff "
        "translate try_variant_array_append try_variant_insert variant_array_append variant_insert zip_with"
    ),
    "3 4": "aggregate overlay reduce regexp_replace try_variant_set variant_set",
    "4": "count_min_sketch width_bucket",
    "even": "map named_struct",
    "1+": "coalesce concat_ws count format_string hash hour minute printf second xxhash64",
    "2+": "decode elt greatest java_method least reflect try_reflect variant_delete",
}
"""The functions by the counts that they take: ``1 2`` for one or two, ``1+`` for one or more, ``even`` for pairs."""

_COUNTS: dict[str, str] = {name: counts for counts, names in _BY_COUNTS.items() for name in names.split()}

_WITH_FLINK = _COUNTS | flink_names.COUNTS | flink_names.MORE_COUNTS


def names() -> frozenset[str]:
    """The functions of Spark's whose counts are known."""
    return frozenset(_COUNTS)


def takes(name: str, count: int) -> bool:
    """Whether the function of that name takes so many arguments; True where that is not known."""
    counts = _WITH_FLINK.get(name, "0+")
    if counts == "even":
        return count % 2 == 0
    if counts.endswith("+"):
        return count >= int(counts[:-1])
    return count in map(int, counts.split())


def wanted(name: str) -> str:
    """The counts that a function takes, in words: ``1 argument``, ``2 or 3 arguments``."""
    counts = _WITH_FLINK[name]
    if counts == "even":
        return "an even number of arguments"
    if counts.endswith("+"):
        return f"at least {counts[:-1]} argument{'' if counts == '1+' else 's'}"
    *others, last = counts.split()
    listed = f"{', '.join(others)} or {last}" if others else "no" if last == "0" else last
    return f"{listed} argument{'' if listed == '1' else 's'}"
