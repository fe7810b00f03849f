"""Python functions over Arrow arrays, without Spark."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sqlstream.types import parse_type
from sqlstream.udfs.columnar import FunctionError, by_batch, by_group, by_row, by_row_to_rows, called, tolerant, unless


class Pair(NamedTuple):
    a: int
    b: dict[str, int]


def test_plain_functions_get_nulls_as_none_and_maps_as_dicts():
    kind = parse_type("MAP<STRING, INT>").to_arrow()
    arguments = pa.array([1, None], pa.int32()), pa.array([[("x", 1)], None], kind)
    seen = []

    def count(*row):
        seen.append(row)
        return len(seen)

    function = by_row("f", count, pa.int64(), 2)
    assert function(*arguments).to_pylist() == [1, 2]
    assert seen == [(1, {"x": 1}), (None, None)]


def test_structs_and_maps_come_back():
    kind = parse_type("STRUCT<a: INT, b: MAP<STRING, INT>>").to_arrow()
    actual = by_row("f", lambda x: Pair(x, {"n": x}) if x else None, kind, 1)(pa.array([1, 0]))
    assert actual.to_pylist() == [{"a": 1, "b": [("n", 1)]}, None]


def test_a_call_without_arguments_gives_a_result_per_row():
    assert by_row("f", lambda: 7, pa.int64(), 0)(pa.array([True, True])).to_pylist() == [7, 7]


def add(left: pd.Series, right: pd.Series) -> pd.Series:
    return left + right


def double(values: pa.Array) -> pa.Array:
    return pc.multiply(values, 2)


def test_vectorised_functions_get_what_they_are_annotated_with():
    numbers = pa.array([1, 2], pa.int64())
    assert by_batch("add", add, pa.float64())(numbers, numbers).to_pylist() == [2.0, 4.0]
    assert by_batch("double", double, pa.int32())(numbers) == pa.array([2, 4], pa.int32())


class Longest:
    """Changes its state in place for one letter and returns a new one for more."""

    def create(self):
        return [""]

    def accumulate(self, state, word, bonus):
        if len(word or "") == 1:
            state.append(word)
            return None
        return [*state, (word or "") + "!" * bonus]

    def finish(self, state):
        return max(state, key=len) or None


def test_aggregates_run_over_the_rows_of_each_group():
    kind = parse_type("ARRAY<STRUCT<a0: STRING, a1: INT>>").to_arrow()
    groups = pa.array([[{"a0": "ab", "a1": 1}, {"a0": "c", "a1": 0}], [{"a0": None, "a1": 0}], []], kind)
    assert by_group("longest", Longest, pa.string())(groups).to_pylist() == ["ab!", None, None]


def test_table_functions_give_arrays_of_rows_bare_or_not():
    row = parse_type("STRUCT<letter: STRING>").to_arrow()
    assert by_row_to_rows("l", list, row, 1)(pa.array(["ab", ""])).to_pylist() == [
        [{"letter": "a"}, {"letter": "b"}],
        [],
    ]
    assert by_row_to_rows("l", lambda _: None, row, 1)(pa.array(["ab"])).to_pylist() == [None]


def test_failures_name_the_function_and_the_reason():
    with pytest.raises(FunctionError, match=r'SS411: function "inverse" failed: ZeroDivisionError: '):
        by_row("inverse", lambda x: 1 / x, pa.float64(), 1)(pa.array([0]))
    with pytest.raises(FunctionError, match='SS412: function "name" returned what is no int64'):
        by_row("name", lambda x: "text", pa.int64(), 1)(pa.array([0]))


class Fee:
    def create(self) -> dict[str, int]:
        return {}

    def accumulate(self, state: dict[str, int], price: int) -> None:
        state["fee"] = 100 // price

    def finish(self, state: dict[str, int]) -> int:
        return state["fee"]


class Opaque:
    """Shows nothing of itself."""


def parsed(text: str) -> int:
    return int(json.loads(text)["n"])


def line_of(function: Any, behind: int = 1) -> str:
    return f'See line {function.__code__.co_firstlineno + behind} of "{__file__}".'


@pytest.mark.parametrize(
    ("run", "detail"),
    [
        (lambda: by_row("n", parsed, pa.int64(), 1)(pa.array(["{"])), f"The call was n('{{'). {line_of(parsed)}"),
        (lambda: by_row("n", parsed, pa.int64(), 1)(pa.array(["7"])), f"The call was n('7'). {line_of(parsed)}"),
        (lambda: by_row("n", int, pa.int64(), 1)(pa.array(["x"])), "The call was n('x')."),
        (
            lambda: by_batch("n", parsed, pa.int64())(pa.array([1, 2])),
            f"The call was n(<2 values>). {line_of(parsed)}",
        ),
        (
            lambda: by_group("fee", Fee, pa.int64())(pa.array([[{"price": 5}, {"price": 0}]])),
            f"The call was fee.accumulate({{'fee': 20}}, 0). {line_of(Fee.accumulate)}",
        ),
        (lambda: called("f", parsed, (Opaque(),)), f"The call was f(<Opaque>). {line_of(parsed)}"),
    ],
)
def test_failures_name_the_call_and_the_line_of_the_users_function_also_where_a_library_raises(
    run: Callable[[], object], detail: str
) -> None:
    with pytest.raises(FunctionError) as caught:
        run()
    assert str(caught.value).partition("\nDETAIL: ")[2] == detail


def test_long_arguments_are_shortened_and_messages_are_one_line() -> None:
    with pytest.raises(FunctionError) as caught:
        called("f", parsed, ("x" * 10_000, *[list(range(10_000))] * 2))
    assert len(str(caught.value)) < 500
    with pytest.raises(FunctionError, match=r"^SS411: function \"f\" failed: ValueError: two lines\nDETAIL: The call"):
        called("f", _two_lines, ())


def _two_lines() -> None:
    raise ValueError("two\nlines")


def test_functions_travel_by_pickle():
    assert pickle.loads(pickle.dumps(by_batch("double", double, pa.int64())))(pa.array([4])).to_pylist() == [8]


def test_a_tolerant_function_tells_the_rows_that_fail_and_leaves_out_others():
    calls = []

    def half(value: int) -> int:
        calls.append(value)
        if value % 2:
            raise ValueError(f"{value} is odd")
        return value // 2

    run = tolerant(by_row("half", half, pa.int32(), 1), pa.int32())
    skipped = pa.array([False, True, None, False])
    good = run(skipped, pa.array([4, 5, 6, 8]))
    assert (calls, good.field("value").to_pylist()) == ([4, 6, 8], [2, None, 3, 4])
    assert good.field("error").null_count == 4
    mixed = run(skipped, pa.array([4, 5, 7, 8]))
    assert mixed.field("value").to_pylist() == [2, None, None, 4]
    assert mixed.field("error").to_pylist() == [None, None, 'SS411: function "half" failed: ValueError: 7 is odd', None]
    line = half.__code__.co_firstlineno + 3
    assert mixed.field("place").to_pylist()[2] == f"{__file__}:{line} in half"
    assert len(run(pa.array([True]), pa.array([1]))) == 1


def test_a_function_is_not_called_for_rows_that_are_left_out():
    given: list[int] = []

    def half(value: int) -> int:
        given.append(value)
        return value // 2

    run = unless(by_row("half", half, pa.int32(), 1), pa.int32())
    skipped = pa.array([True, False, None, True])
    assert run(skipped, pa.array([None, 4, 6, 8])).to_pylist() == [None, 2, 3, None]
    assert given == [4, 6]
    assert run(pa.array([True, True]), pa.array([1, 2])).to_pylist() == [None, None]
    assert given == [4, 6]
    one = unless(by_row("one", lambda: 1, pa.int32(), 0), pa.int32())
    assert one(pa.array([False, True])).to_pylist() == [1, None]


def test_a_tolerant_vectorised_function_and_wrong_results():
    double = tolerant(by_batch("double", lambda a: pa.array([v * 2 for v in a.to_pylist()]), pa.int64()), pa.int64())
    actual = double(pa.array([False, False]), pa.array([1, None]))
    assert actual.field("value").to_pylist() == [2, None]
    assert actual.field("error").to_pylist()[1].startswith('SS411: function "double" failed: TypeError: ')
    wrong = tolerant(by_row("word", lambda a: "x" if a else 1, pa.int64(), 1), pa.int64())
    assert wrong(pa.array([False, False]), pa.array([1, 0])).field("error").to_pylist()[0].startswith("SS412: ")
