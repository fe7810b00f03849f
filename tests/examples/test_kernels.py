"""The benchmark of kernels runs, on few rows."""

from __future__ import annotations

import pytest

from examples.throughput.kernels import KERNELS, STAGES, measured


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_is_measured(name):
    spent = measured(KERNELS[name], rows=20_000, keys=50, batches=3)
    assert spent.results > 0
    assert sum(spent.seconds[stage] for stage in STAGES) > 0
