"""The page of a job's plan, and the figures that it asks for, as they are served."""

from __future__ import annotations

import json

from sqlstream.jobs.reports.plan_figures import PlanFigures
from sqlstream.local_page import Answer

FIGURES = "figures.json"
"""Where a page finds its figures, beside itself."""


def page_of(figures: PlanFigures) -> Answer:
    return Answer(figures.page(FIGURES))


def figures_of(figures: PlanFigures) -> Answer:
    text = json.dumps(figures.figures().as_json(), ensure_ascii=False, indent=1)
    return Answer(f"{text}\n", "application/json")
