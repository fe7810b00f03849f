"""What of SQLAlchemy's suite holds for the dialect, and why the rest does not.

``open`` requirements that are not named here hold as they are. Each that is closed says why; those that SQLAlchemy
closes by itself, and are not named, are about what only other databases have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy.testing import exclusions
from sqlalchemy.testing.requirements import SuiteRequirements

OPEN = (
    "binary_literals", "bound_limit_offset", "comment_reflection", "comment_reflection_full_unicode",
    "ctes", "date_historic", "datetime_historic", "datetime_literals", "duplicate_names_in_cursor_description",
    "except_", "fetch_expression", "fetch_first", "fetch_no_order_by",
    "float_or_double_precision_behaves_generically", "group_by_complex_expression", "insert_from_select",
    "intersect", "multivalues_inserts", "nullsordering", "order_by_label_with_expression",
    "precision_numerics_enotation_large", "precision_numerics_enotation_small",
    "precision_numerics_many_significant_digits", "precision_numerics_retains_significant_digits", "regexp_match",
    "regexp_replace", "schema_create_delete", "schemas", "sql_expression_limit_offset", "supports_bitwise_and",
    "supports_bitwise_not", "supports_bitwise_or", "supports_bitwise_shift", "supports_bitwise_xor",
    "table_ddl_if_exists", "table_value_constructor", "temp_table_names", "temp_table_reflection", "temporary_tables",
    "temporary_views", "timestamp_microseconds", "tuple_in", "unicode_ddl", "uuid_data_type", "views",
    "window_functions", "infinity_floats", "has_temp_table", "boolean_col_expressions",
    "ctes_with_values", "temp_table_comment_reflection", "reflect_table_options",
)  # fmt: skip
"""What SQLAlchemy asks each dialect about, and ours has."""

CLOSED = {
    "autoincrement_insert": "rows of a stream have no numbers of their own: each INSERT gives its keys",
    "implements_get_lastrowid": "as above",
    "autoincrement_without_sequence": "as above",
    "duplicate_key_raises_integrity_error": "a PRIMARY KEY is NOT ENFORCED: a row replaces the one of its key",
    "foreign_keys": "there are none",
    "foreign_key_ddl": "there are none",
    "self_referential_foreign_keys": "there are none",
    "foreign_key_constraint_reflection": "there are none",
    "on_update_cascade": "there are no foreign keys",
    "repeated_column_foreign_keys": "there are none",
    "recursive_fk_cascade": "there are none",
    "index_reflection": "there are no indexes",
    "indexes_with_ascdesc": "there are no indexes",
    "reflect_indexes_with_ascdesc": "there are no indexes",
    "temp_table_reflect_indexes": "there are no indexes",
    "unique_constraint_reflection": "there is no UNIQUE",
    "named_constraints": "the catalog does not keep the name of a PRIMARY KEY",
    "implicitly_named_constraints": "as above",
    "update_where_target_in_subquery": "there is no UPDATE",
    "server_defaults": "columns have no DEFAULT",
    "empty_inserts": "columns have no DEFAULT",
    "empty_inserts_executemany": "columns have no DEFAULT",
    "sane_rowcount": "a table does not say how many rows TRUNCATE removes",
    "sane_multi_rowcount": "as above",
    "savepoints": "there are no transactions",
    "two_phase_transactions": "there are no transactions",
    "autocommit": "it cannot be turned off",
    "isolation_level": "there are no transactions; the one level is AUTOCOMMIT",
}

EXCLUDED = {
    "DifficultParametersTest_sqlstream+session_0_1_0::test_round_trip_same_named_column[___name]": (
        "names that begin with two underscores belong to the engine (SS205)"
    ),
    "InsertBehaviorTest_sqlstream+session_0_1_0::test_insert_from_select_autoinc": "rows have no numbers of their own",
    "InsertBehaviorTest_sqlstream+session_0_1_0::test_insert_from_select_autoinc_no_rows": "as above",
    **{
        f"{suite}_sqlstream+session_0_1_0::{test}": "a table has its comment from its CREATE TABLE"
        for suite in ("TableDDLTest", "FutureTableDDLTest")
        for test in ("test_add_table_comment", "test_drop_table_comment")
    },
    **{
        f"InsertBehaviorTest_sqlstream+session_0_1_0::test_no_results_for_non_returning_insert[{kind}]": (
            "rows have no numbers of their own"
        )
        for kind in ("executemany-plain", "executemany-return_defaults", "not_executemany-plain",
                     "not_executemany-return_defaults")
    },
    **{
        f"ReturningGuardsTest_sqlstream+session_0_1_0::test_{kind}_{number}": (
            "RETURNING, UPDATE and DELETE of single rows are refused when they are compiled, with a CompileError that "
            "says what to write; the test expects the error of a database, and SQLAlchemy's own for executemany"
        )
        for kind in ("insert", "update", "delete")
        for number in ("single", "many")
    },
    "LongNameBlowoutTest_sqlstream+session_0_1_0::test_long_convention_name[ix": "there are no indexes",
}  # fmt: skip
"""Single tests that no requirement names, and why they do not hold."""


class Requirements(SuiteRequirements):
    """Found by SQLAlchemy's plugin of pytest."""


def _holds(self: Requirements) -> Any:
    return exclusions.open()


def _closed(why: str) -> Callable[[Requirements], Any]:
    return lambda self: exclusions.skip_if(lambda: True, why)


for _name in OPEN:
    setattr(Requirements, _name, property(_holds))
for _name, _why in CLOSED.items():
    setattr(Requirements, _name, property(_closed(_why)))
