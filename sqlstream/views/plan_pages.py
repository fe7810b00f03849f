"""The plans of served views with what their jobs count, for the page of ``sqlstream serve``."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

from sqlstream.errors import SqlStreamError
from sqlstream.jobs.records.record import JobRecord
from sqlstream.jobs.reports.plan_figures import PlanFigures
from sqlstream.jobs.reports.plan_page import FIGURES, figures_of, page_of
from sqlstream.local_page import Answer


class PlanPages:
    """``take`` is called by the thread that serves, ``answer`` by those of the page."""

    def __init__(self) -> None:
        self._by_name: Mapping[str, PlanFigures] = {}

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._by_name)

    def take(self, records: Mapping[str, JobRecord]) -> None:
        """The present records of all jobs; those without a plan that can be shown are left out."""
        kept = dict[str, PlanFigures]()
        for name, record in records.items():
            before = self._by_name.get(name)
            try:
                if before is None or not before.is_of(record):
                    kept[name] = PlanFigures(record)
                else:
                    before.take(record)
                    kept[name] = before
            except SqlStreamError:
                continue
        self._by_name = kept

    def answer(self, path: str) -> Answer | None:
        """``NAME/`` and ``NAME/figures.json``."""
        name, _, what = path.partition("/")
        figures = self._by_name.get(unquote(name))
        if figures is None:
            return None
        return {"": page_of, FIGURES: figures_of}[what](figures) if what in ("", FIGURES) else None
