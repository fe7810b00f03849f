"""The observed metrics of a micro-batch (``DataFrame.observe``), from Spark's report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def observed(report: Mapping[str, Any], kind: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The sets of metrics whose names begin with ``kind``, each behind what follows it and a slash."""
    for name, metrics in report.get("observedMetrics", {}).items():
        first, _, rest = name.partition("/")
        if first == kind:
            yield rest, metrics


def values_of(metrics: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    """The values of a set of metrics, of which ``names`` are all; Spark Connect gives them in this order alone."""
    return list(metrics["values"]) if "values" in metrics else [metrics[name] for name in names]


def counts_of(metrics: Mapping[str, Any], names: Sequence[str]) -> list[int]:
    """The observed counts; NULL, which stands for no rows, is 0."""
    return [int(value or 0) for value in values_of(metrics, names)]
