"""Key groups spread evenly over Spark's partitions."""

from __future__ import annotations

import numpy as np
import pytest

from sqlstream.udfs.spark.batches import murmur3, numbers_of


def test_the_hash_is_that_of_spark():
    values = np.array([0, 1, 2, 100], np.uint32)  # SELECT hash(0), hash(1), …
    assert murmur3(values).tolist() == [933211791, -559580957, 1765031574, 751823303]


@pytest.mark.parametrize("groups", [1, 2, 7, 32, 128, 1000])
def test_each_key_group_has_a_number_of_its_own_and_partitions_get_equal_shares(groups):
    numbers = numbers_of(groups)
    assert len(set(numbers.tolist())) == groups
    assert (murmur3(numbers.astype(np.uint32)) % groups).tolist() == list(range(groups))
