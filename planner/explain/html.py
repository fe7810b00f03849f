"""A plan as one page of HTML that needs nothing else: the tree, what each operator gives and keeps, lineage.

Of a job it also shows the figures, which the page asks for again where it is served.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import count
from typing import Any

from sqlstream.grammar.depth import on_deep_stack
from sqlstream.planner.changes import Changes, changes_of
from sqlstream.planner.explain.stages import advice, latency
from sqlstream.planner.explain.text import properties_text
from sqlstream.planner.lineage import lineage
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Insert, Output, StatementSet

# --- figures ---------------------------------------------------------------------------------------------------
# What a running job counts of its plan. They are made of a job's reports, elsewhere.


@dataclass(frozen=True)
class Figure:
    """A number or text that the HTML page of EXPLAIN shows at an operator, such as the rows per second of a running
    job.

    ``node``: the position of the operator in ``Node.walk``; None for the whole job. ``name`` identifies the figure
    among those of its operator; ``label`` is the name that is shown, ``more`` explains what is counted. ``value`` is
    None while it is unknown, ``per_second`` if there is no rate. ``words``, if given, are shown instead of the value.
    """

    node: int | None
    name: str
    label: str
    more: str = ""
    value: int | float | str | None = None
    per_second: float | None = None
    words: str | None = None

    @property
    def id(self) -> str:
        return f"{'job' if self.node is None else self.node}.{self.name}"

    @property
    def text(self) -> str:
        """The figure as shown: ``words``, or the value with its rate."""
        if self.words is not None:
            return self.words
        if self.value is None:
            return "–"
        shown = f"{self.value:,}" if isinstance(self.value, int) else str(self.value)
        return shown if self.per_second is None else f"{shown} ({_rate_text(self.per_second)}/s)"


def _rate_text(rate: float) -> str:
    """Slow ones with a decimal, so that they are not taken for none."""
    return f"{rate:,.1f}" if 0 < rate < 10 else f"{rate:,.0f}"


@dataclass(frozen=True)
class Figures:
    """All numbers that the HTML page of EXPLAIN shows, at one moment. Which figures there are depends only on the plan.

    ``source`` is the URL from which the page loads newer figures, as JSON (``as_json``); None for a page without
    updates.
    """

    figures: Sequence[Figure]
    source: str | None = None

    def of(self, node: int | None) -> Iterable[Figure]:
        return (figure for figure in self.figures if figure.node == node)

    def as_json(self) -> dict[str, Any]:
        """The figures as an object of JSON values."""
        return {
            "figures": [
                {
                    "id": f.id,
                    "node": f.node,
                    "name": f.name,
                    "label": f.label,
                    "value": f.value,
                    "per_second": f.per_second,
                    "text": f.text,
                }
                for f in self.figures
            ]
        }


PLAN_STYLE = """
ul.plan, ul.plan ul { list-style: none; margin: 0; padding-left: 1.4rem; border-left: 1px solid var(--line); }
ul.plan { padding-left: 0; border: 0; }
ul.plan details { background: var(--box); border-radius: 6px; margin: .35rem 0; padding: .35rem .7rem; }
ul.plan summary { cursor: pointer; overflow-wrap: anywhere; } summary b { color: var(--strong); }
.small { opacity: .75; font-size: .85rem; } .warn { color: var(--warn); }
.figures { display: flex; flex-wrap: wrap; gap: 0 1.4rem; margin: .15rem 0 .1rem; font-size: .9rem; }
.figures b { font-variant-numeric: tabular-nums; color: inherit !important; } .figures span { opacity: .85; }
"""
"""Of the tree of a plan, for pages that show it among other things."""

_STYLE = """
:root { color-scheme: light dark; --line: #8886; --box: #8881; --strong: #0a7; --warn: #c60; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin-top: 2rem; }
pre, code { font: 13px/1.5 ui-monospace, monospace; }
pre { background: var(--box); padding: 1rem; border-radius: 6px; overflow-x: auto; white-space: pre-wrap; }
table { border-collapse: collapse; } td, th { text-align: left; padding: .2rem .8rem .2rem 0; vertical-align: top; }
th { font-weight: 600; border-bottom: 1px solid var(--line); } td { border-bottom: 1px solid var(--box); }
.stale { opacity: .5; }
"""

_REFRESH_MS = 1000
_SCRIPT = """
async function refresh() {
  try {
    const answer = await fetch(SOURCE, {cache: 'no-store'});
    for (const figure of (await answer.json()).figures) {
      const shown = document.getElementById(figure.id);
      if (shown && shown.textContent !== figure.text) shown.textContent = figure.text;
    }
    document.body.classList.remove('stale');
  } catch { document.body.classList.add('stale'); }
}
setInterval(refresh, PAUSE);
"""
"""Text alone is changed, so what a reader has opened stays open. A page whose server is gone turns pale."""


@on_deep_stack
def html_page(
    plan: Output | Insert | StatementSet, text: str = "", title: str = "Plan", figures: Figures | None = None
) -> str:
    """Returns the HTML page of an optimized plan. Secrets in the plan must be masked already; ``text`` is its SQL.

    ``figures`` are the counts of the job that runs it, None without a job.
    """
    live = figures if figures is not None else Figures(())
    roots = plan.inserts if isinstance(plan, StatementSet) else (plan,)
    tree = _section("Plan", _plan_tree(plan, live))
    moves = figures is not None  # what moves comes first
    sections = [
        *([tree] if moves else []),
        *([_section("Query", f"<pre>{escape(text.strip())}</pre>")] if text.strip() else []),
        *(_section(_result_title(root), _result(root)) for root in roots),
        *([] if moves else [tree]),
        _section("State", _state(plan)),
        *([_section("Latency and advice", _list(said))] if (said := [*_said(plan)]) else []),
    ]
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}{PLAN_STYLE}</style>'
    if live.source is not None:
        source = json.dumps(live.source).replace("<", "\\u003c")
        script = _SCRIPT.replace("SOURCE", source).replace("PAUSE", str(_REFRESH_MS))
        sections.append(f"<script>{script}</script>")
    body = f"<h1>{escape(title)}</h1>{_figures(live.of(None))}{''.join(sections)}"
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


@on_deep_stack
def plan_tree(plan: Output | Insert | StatementSet, figures: Figures) -> str:
    """Returns the tree of an optimized plan with the figures of its operators, as a list for another page."""
    return _plan_tree(plan, figures)


def _plan_tree(plan: Output | Insert | StatementSet, figures: Figures) -> str:
    return f'<ul class="plan">{_tree(changes_of(plan), figures, count())}</ul>'


def _section(title: str, content: str) -> str:
    return f"<h2>{escape(title)}</h2>{content}"


def _result_title(root: Output | Insert) -> str:
    return f'Rows of table "{root.table.name}"' if isinstance(root, Insert) else "Result"


def _result(root: Output | Insert) -> str:
    lines = zip(root.input.schema, lineage(root), strict=True)
    rows = [(line.column, str(f.type), _not_null(f.nullable), _time(f.time), line.expression) for f, line in lines]
    return _table(("column", "type", "", "time", "made of"), rows)


def _tree(changes: Changes, live: Figures, numbers: Iterator[int]) -> str:
    """One item per node, with its figures, its inputs below it. ``numbers`` count the nodes as ``Node.walk`` does."""
    shown = f"{_summary(changes)}{_figures(live.of(next(numbers)))}"
    inner = "".join(_tree(below, live, numbers) for below in changes.inputs)
    below = f"<ul>{inner}</ul>" if inner else ""
    return f"<li><details><summary>{shown}</summary>{_details(changes)}</details>{below}</li>"


def _figures(figures: Iterable[Figure]) -> str:
    shown = "".join(map(_figure, figures))
    return f'<div class="figures">{shown}</div>' if shown else ""


def _figure(figure: Figure) -> str:
    text = f'{escape(figure.label)} <b id="{figure.id}">{escape(figure.text)}</b>'
    return f'<span title="{escape(figure.more)}">{text}</span>'


def _summary(changes: Changes) -> str:
    name, parenthesis, rest = changes.node.describe().partition("(")
    return f'<b>{escape(name)}</b>{escape(parenthesis + rest)} <span class="small">{escape(changes.text)}</span>'


def _details(changes: Changes) -> str:
    node = changes.node
    fields = [(f.name, str(f.type), _not_null(f.nullable), _time(f.time)) for f in node.schema]
    kept_rows = [f"keeps {one.what}, until {one.until or 'the end of the job'}" for one in node.state_descriptions()]
    return f'<p class="small">{escape(properties_text(changes))}</p>{_list(kept_rows)}' + _table(
        ("field", "type", "", "time"), fields
    )


def _state(plan: Node) -> str:
    nodes = {id(node): node for node in plan.walk()}.values()
    rows = [(node.describe(), one.what, one.until) for node in nodes for one in node.state_descriptions()]
    if not rows:
        return "<p>No operator keeps state.</p>"
    body = "".join(
        f"<tr><td><code>{escape(operator)}</code></td><td>{escape(what)}</td><td>{_until(until)}</td></tr>"
        for operator, what, until in rows
    )
    return f"<table><tr><th>operator</th><th>keeps</th><th>until</th></tr>{body}</table>"


def _until(until: str | None) -> str:
    return escape(until) if until is not None else '<span class="warn">nothing bounds it</span>'


def _said(plan: Node) -> Iterator[str]:
    yield from dict.fromkeys((*latency(plan), *advice(plan)))


def _not_null(nullable: bool) -> str:
    return "" if nullable else "NOT NULL"


def _time(time: object) -> str:
    return "" if time is None else str(getattr(time, "value", time))


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(value)}</td>' for value in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _list(items: Iterable[str]) -> str:
    inner = "".join(f"<li>{escape(item)}</li>" for item in items)
    return f"<ul>{inner}</ul>" if inner else ""
