"""The catalogue of built-in functions: each name once, consistent entries, all that one entry is enough for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlglot import exp

from sqlstream.functions import catalogue
from sqlstream.functions.aggregates import OF_CLAUSES
from sqlstream.functions.builtin import Aggregate, Arrival, Builtin, BuiltinKind, Origin, scalar
from sqlstream.functions.catalogue import CLAUSE_FUNCTIONS, FUNCTIONS, aggregate_of, kind_of, result_type
from sqlstream.grammar import parse_query
from sqlstream.planner.functions.spelling import filled, spelled_for_spark
from sqlstream.types import BIGINT, INT, STRING, UNKNOWN

ALL = [*FUNCTIONS.values(), *CLAUSE_FUNCTIONS.values()]


def test_each_name_stands_once() -> None:
    entries = [function for functions in (*catalogue._EVALUATED, OF_CLAUSES) for function in functions]
    names = Counter(name for entry in entries for name in (entry.name, *entry.aliases.split()))
    assert [name for name, count in names.items() if count > 1] == []
    assert {name for name in names if name != name.lower()} == set()
    assert len(names) == len(ALL)


@pytest.mark.parametrize("kind", BuiltinKind)
def test_every_kind_has_functions(kind: BuiltinKind) -> None:
    assert any(function.kind is kind for function in ALL)


def test_entries_agree_with_themselves() -> None:
    for function in ALL:
        assert isinstance(function, Aggregate) == (function.kind is BuiltinKind.AGGREGATE), function.name
        assert isinstance(function.flink, bool), "by a single name it is there or not"
        assert function.alias_of is None or FUNCTIONS[function.alias_of].alias_of is None, function.name
        for count in function.spark or ():
            assert function.takes(count), function.name
        if function.origin is Origin.FLINK:
            assert function.arity is not None and function.result is not UNKNOWN, function.name


def test_templates_are_sql_of_their_arguments() -> None:
    for function in FUNCTIONS.values():
        for count, template in (function.spark or {}).items():
            arguments = [exp.column(f"argument_{number}") for number in range(count)]
            read = {column.name for column in filled(template, *arguments).find_all(exp.Column)}
            assert {name for name in read if name.startswith("p")} == set(), function.name


def test_the_number_of_arguments() -> None:
    function = replace(FUNCTIONS["week"], arity="1 3", spark={2: "WEEKOFYEAR(p1)"})
    assert [count for count in range(5) if function.takes(count)] == [1, 2, 3]
    assert function.arity_in_words == "1, 2 or 3 arguments"
    assert [FUNCTIONS[name].arity_in_words for name in ("pi", "upper", "concat_ws", "greatest", "map")] == [
        "no arguments", "1 argument", "at least 1 argument", "at least 2 arguments", "an even number of arguments",
    ]  # fmt: skip
    assert FUNCTIONS["concat"].takes(0), "only Spark can tell"


def test_an_alias_is_the_same_function() -> None:
    assert FUNCTIONS["mean"] == replace(FUNCTIONS["avg"], name="mean", aliases="", alias_of="avg", flink=False)
    assert kind_of("MEAN") is BuiltinKind.AGGREGATE
    assert result_type("mean", [INT]) == result_type("avg", [INT])
    assert (FUNCTIONS["first"].flink, FUNCTIONS["first_value"].flink) == (False, True)


def test_a_scalar_function_is_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its type, its number of arguments and its text for Spark come from there."""
    entry: Builtin = scalar("shout", "1", STRING, origin=Origin.FLINK, spark={1: "CONCAT(UPPER(p1), '!')"})
    monkeypatch.setitem(catalogue.FUNCTIONS, "shout", entry)
    (call,) = parse_query("SELECT SHOUT(a)").expressions
    assert spelled_for_spark(call).sql("spark") == "CONCAT(UPPER(a), '!')"
    assert (result_type("shout", [BIGINT]), entry.takes(2)) == (STRING, False)
    assert "shout" in catalogue.kinds_to_show()


def _aggregates(asked: Callable[[Aggregate], bool]) -> set[str]:
    return {name for name in FUNCTIONS if (aggregate := aggregate_of(name)) is not None and asked(aggregate)}


def test_an_alias_of_an_aggregate_is_the_aggregate() -> None:
    assert aggregate_of("string_agg") is aggregate_of("listagg") is FUNCTIONS["listagg"]
    assert aggregate_of("upper") is aggregate_of("no_function") is aggregate_of(None) is None


def test_aggregates_say_what_they_show_of_the_order_of_arrival() -> None:
    listed = {"array_agg", "collect_list", "listagg", "string_agg"}
    picked = {"any_value", "first", "first_value", "last", "last_value", "mode"}
    assert _aggregates(lambda a: a.arrival is Arrival.LISTED) == listed
    assert _aggregates(lambda a: a.arrival is Arrival.PICKED) == picked
    assert _aggregates(lambda a: a.shows_arrival) == listed | picked | {"collect_set", "max_by", "min_by"}


def test_aggregates_say_what_they_do_with_nulls() -> None:
    picks = {"any_value", "first", "first_value", "last", "last_value"}
    assert _aggregates(lambda a: a.says_whether_nulls_are_ignored) == picks
    assert _aggregates(lambda a: a.nulls is not None) == picks | {"array_agg", "collect_list", "collect_set"}
