import numpy as np
import pytest

from sqlstream.udfs.keys import in_order

EXTREMES = np.array([-(2**63), 2**63 - 1, 0, -1, 1, 2**63 - 1])


@pytest.mark.parametrize("count", [0, 1, 2, 3, 1000])
@pytest.mark.parametrize("spread", [1, 7, 2**20, 2**40, 2**62])
def test_rows_are_in_order_of_all_columns_and_stay_as_they_are_where_these_are_equal(count: int, spread: int) -> None:
    random = np.random.default_rng(count)
    for number in (1, 2, 3):
        columns = [random.integers(-spread, spread, count) for _ in range(number)]
        assert in_order(columns).tolist() == np.lexsort([*reversed(columns)]).tolist()


def test_columns_that_span_all_numbers_are_in_order() -> None:
    assert in_order([EXTREMES]).tolist() == [0, 3, 2, 4, 1, 5]
    assert in_order([np.array([1, 0, 1, 0, 1, 0]), EXTREMES]).tolist() == [3, 1, 5, 0, 2, 4]


def test_columns_of_63_bits_with_the_numbers_of_rows_are_in_order() -> None:
    wide = np.array([2**61, 0, 2**61, 5])  # 62 bits, and 2 for rows: too many
    fits = np.array([2**60, 0, 2**60, 5])  # 61 bits, and 2
    assert in_order([wide]).tolist() == in_order([fits]).tolist() == [1, 3, 0, 2]
