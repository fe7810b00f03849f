"""The metrics as Prometheus reads them, written by ``prometheus_client``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from sqlstream.telemetry.figures import JobFigures
from sqlstream.telemetry.instruments import (
    JOB,
    JOB_INSTRUMENTS,
    PROCESS_INSTRUMENTS,
    Distribution,
    Instrument,
    Kind,
    Sample,
    label,
)
from sqlstream.telemetry.processes import ProcessFigures, process_figures

Jobs = Callable[[], Iterable[JobFigures]]


class JobCollector(Collector):
    """Gives ``prometheus_client`` the metrics of jobs and of this process, as they are when it asks.

    ``now``: the time in seconds since 1970, ``processes``: the figures of this process, both for tests.
    """

    def __init__(
        self,
        jobs: Jobs,
        now: Callable[[], float] = time.time,
        processes: Callable[[], ProcessFigures] = process_figures,
    ) -> None:
        self._jobs, self._now, self._processes = jobs, now, processes

    def collect(self) -> Iterator[Metric]:
        """The families of all instruments; those without a sample have no lines but their description."""
        figures, now = list(self._jobs()), self._now()
        for instrument in JOB_INSTRUMENTS:
            family = _family(instrument, (*JOB, *instrument.attributes))
            for job in figures:
                for sample in instrument.read(job, now):
                    _add(family, (job.name, *sample.attributes), sample)
            yield family
        processes = self._processes()
        for of_process in PROCESS_INSTRUMENTS:
            family = _family(of_process, of_process.attributes)
            for sample in of_process.read(processes, now):
                _add(family, sample.attributes, sample)
            yield family


_FAMILIES: dict[Kind, type[CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily]] = {
    Kind.COUNTER: CounterMetricFamily,
    Kind.GAUGE: GaugeMetricFamily,
    Kind.HISTOGRAM: HistogramMetricFamily,
}


def _family(
    instrument: Instrument[JobFigures] | Instrument[ProcessFigures], attributes: tuple[str, ...]
) -> CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily:
    family = _FAMILIES[instrument.kind]
    return family(instrument.prometheus_name, instrument.doc, labels=[label(name) for name in attributes])


def _add(
    family: CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily, labels: tuple[str, ...], sample: Sample
) -> None:
    value = sample.value
    if isinstance(family, HistogramMetricFamily):
        assert isinstance(value, Distribution)
        bounds = [*(f"{bound:g}" for bound in value.bounds), "+Inf"]
        family.add_metric(labels, list(zip(bounds, accumulate(value.counts), strict=True)), value.total)
    else:
        assert not isinstance(value, Distribution)
        family.add_metric(labels, value)


class Exposition:
    """The text of ``/metrics``, in the format that the reader asks for."""

    def __init__(self, collector: JobCollector) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(collector)

    def text(self, accept: str) -> tuple[bytes, str]:
        """The metrics and their media type. ``accept``: the header of the request."""
        encode, media_type = choose_encoder(accept)
        return encode(self._registry), media_type
