"""``Planner``: the planner as a library, for tools that show, check, rewrite and cache SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlstream.analysis.answers import Analysis, Hover, Problem, Pushed, StatementAnalysis, Transpiled
from sqlstream.analysis.places import hovered, places_of
from sqlstream.analysis.rewrites import Moment, as_subquery, filtered, in_range, limited, pushed
from sqlstream.analysis.statements import analyzed
from sqlstream.analysis.tables import Described, DescribedTables, tables_of_file
from sqlstream.analysis.transpiling import Dialect, transpiled
from sqlstream.catalog import DEFAULT
from sqlstream.catalogs.store import InMemory
from sqlstream.connectors.secrets import without_secrets
from sqlstream.errors import BindError, Span, SqlStreamError
from sqlstream.grammar import format_script, nodes, parse_script
from sqlstream.planner.completion import Suggestion, complete
from sqlstream.planner.explain import PLANNER_STAGES, explain, to_json
from sqlstream.planner.explain.html import html_page
from sqlstream.planner.physical import explain_physical, physical_plan
from sqlstream.planner.rules import optimize
from sqlstream.plans import RULES, Root, bound_plan, engine_settings_of
from sqlstream.statements.registry import define, is_definition
from sqlstream.vocabulary import SessionVocabulary
from sqlstream.workspace import Workspace

if TYPE_CHECKING:
    from sqlstream.session import Session


NO_PLAN = "SS283"


@dataclass(frozen=True)
class Planner:
    """Answers questions about SQL over a catalog, without running anything, and without Spark, Java or pandas.

    A planner never changes: each ``with_…`` gives another one that knows more. Answers are frozen data
    (``sqlstream.analysis.answers``), whose ``to_dict`` gives values of JSON::

        from sqlstream.planner import Planner

        planner = Planner().with_tables({"bids": {"auction": "BIGINT", "price": "DOUBLE", "ts": "TIMESTAMP(3)"}})
        (select,) = planner.analyze("SELECT auction, MAX(price) AS top FROM bids GROUP BY auction")
        select.columns[1].type, select.columns[1].sources  # ('DOUBLE', ('bids.price',))

    Texts that are wrong give problems in ``analyze``; all other methods raise ``SqlStreamError`` for them.
    """

    _workspace: Workspace = field(default_factory=Workspace, repr=False, compare=False)

    # --- the catalog ---

    def with_ddl(self, text: str) -> Planner:
        """A planner that also has the definitions of a script: tables, views, functions, catalogs, settings."""
        workspace = self._workspace.copy()
        try:
            for statement in parse_script(text):
                if not is_definition(statement):
                    message = "a catalog is made of definitions, and this statement defines nothing"
                    raise BindError(NO_PLAN, message, statement.span)
                define(statement, workspace, text)
        except SqlStreamError as error:
            raise error.with_source(text) from error.__cause__
        return Planner(workspace)

    def with_tables(self, tables: Mapping[str, Described]) -> Planner:
        """With tables by name, each a dictionary of columns and their types, or with more than columns::

            {"bids": {"columns": {"id": "BIGINT NOT NULL", "ts": "TIMESTAMP(3)"}, "primary_key": ["id"],
                      "watermark": ["ts", "ts - INTERVAL '5' SECOND"], "comment": "…", "options": {"connector": "…"}}}

        ``query`` in place of ``columns`` makes a view. Tables are looked at when they are used.
        """
        workspace = self._workspace.copy()
        mount = workspace.catalog.mount(DEFAULT[0])
        store = mount.store
        if isinstance(store, DescribedTables):
            store = DescribedTables({**store.tables, **tables}, store.created)
        else:
            assert isinstance(store, InMemory), "the catalog that a session begins with"
            store = DescribedTables(dict(tables), store)
        workspace.catalog.replace_catalog(replace(mount, store=store))
        return Planner(workspace)

    def with_file(self, path: str | Path) -> Planner:
        """A planner that also has the definitions of an SQL file, or the tables of a JSON file in the format of
        ``with_tables``.
        """
        file = Path(path)
        if file.suffix == ".json":
            return self.with_tables(tables_of_file(file))
        return self.with_ddl(file.read_text(encoding="utf-8"))

    def with_database(self, name: str, options: Mapping[str, str]) -> Planner:
        """With the tables of a database, as its information schema tells them, as the catalog ``name``, now the current
        one.

        ``options`` are those of CREATE CATALOG: ``{"type": "jdbc", "url": "jdbc:postgresql://host/db"}``, or
        ``{"type": "duckdb", "path": "file.db"}``.
        """
        workspace = self._workspace.copy()
        given = tuple(nodes.Option(key, value) for key, value in options.items())
        define(nodes.CreateCatalog(nodes.Name((name,)), given), workspace, "")
        define(nodes.Use("CATALOG", nodes.Name((name,))), workspace, "")
        return Planner(workspace)

    def with_session(self, session: Session) -> Planner:
        """A planner with the catalog and settings of a session, including Spark's tables; this planner's own are
        dropped.
        """
        return Planner(session.workspace.copy())

    def with_settings(self, settings: Mapping[str, str]) -> Planner:
        """A planner with settings as of SET, such as ``table.exec.state.ttl``."""
        workspace = self._workspace.copy()
        for key, value in settings.items():
            workspace.settings.set(key, value)
        return Planner(workspace)

    # --- what a text says ---

    def analyze(self, text: str) -> Analysis:
        """The analysis of each statement of a text: problems with fixes, columns with lineage, tables, functions,
        state, parameters, fingerprint.
        """
        return analyzed(text, self._workspace)

    def check(self, text: str) -> tuple[Problem, ...]:
        """The problems of all statements, in the order of the text."""
        return self.analyze(text).problems

    def fingerprint(self, text: str) -> str:
        """The fingerprint of one query or INSERT: equal for texts with the same optimized plan."""
        fingerprint = self._one(text).fingerprint
        assert fingerprint is not None, "what has a plan has a fingerprint"
        return fingerprint

    def plan(self, text: str, stage: str = "optimized", format: str = "text") -> str:  # noqa: A002
        """The plan of one query, INSERT or statement set: ``stage`` is logical, optimized, trace, changelog_mode,
        advice or physical; ``format`` is text, json or mermaid, where the stage has it."""
        bound = self._bound(text)
        if stage.upper() == "PHYSICAL":
            return explain_physical(physical_plan(optimize(bound, RULES), engine_settings_of(self._workspace.settings)))
        if stage.upper() not in PLANNER_STAGES:
            raise ValueError(f"no stage {stage!r}; stages are {', '.join(s.lower() for s in PLANNER_STAGES)}, physical")
        return explain(without_secrets(bound), format.upper(), stage.upper(), RULES)

    def plan_json(self, text: str) -> dict[str, Any]:
        """The optimized plan in the form that ``sqlstream.planner.from_json`` reads; ``plan_schema`` describes it."""
        return to_json(without_secrets(optimize(self._bound(text), RULES)))

    def html(self, text: str) -> str:
        """An HTML page that shows the plan with schemas, lineage and state, without external resources."""
        plan = without_secrets(optimize(self._bound(text), RULES))
        assert isinstance(plan, Root)
        return html_page(plan, text)

    def _bound(self, text: str) -> Root:
        try:
            statements = parse_script(text)
            if len(statements) != 1 or not isinstance(statements[0], nodes.Query | nodes.Insert | nodes.StatementSet):
                raise BindError(NO_PLAN, "only one query, INSERT or statement set has a plan")
            return bound_plan(statements[0], self._workspace)
        except SqlStreamError as error:
            raise error.with_source(text) from error.__cause__

    def _one(self, text: str) -> StatementAnalysis:
        """The analysis of the only statement, which has a plan."""
        analysis = self.analyze(text)
        if len(analysis.statements) != 1 or analysis.statements[0].fingerprint is None:
            self._bound(text)
        return analysis.statements[0]

    # --- while one types ---

    def complete(self, text: str, at: int) -> list[Suggestion]:
        """Suggestions for what to type at a position, the most likely first."""
        return complete(text, at, SessionVocabulary(self._workspace))

    def hover(self, text: str, at: int) -> Hover | None:
        """The description of the name at a position, in Markdown."""
        return hovered(text, at, self._workspace)

    def places(self, text: str, at: int) -> tuple[Span, ...]:
        """All spans of the table, view or query of WITH at ``at``, its definition first; empty where the text has
        none.
        """
        return places_of(text, at)

    def format(self, text: str) -> str:
        """The text in the standard layout."""
        return format_script(text)

    # --- other texts ---

    def add_filter(self, text: str, *conditions: str) -> str:
        """The query with only the rows that meet all conditions, each over its columns."""
        return filtered(text, conditions, self._workspace)

    def push_filters(self, text: str, conditions: Sequence[str]) -> Pushed:
        """The filtered query, and which conditions its sources apply."""
        return pushed(text, conditions, self._workspace)

    def add_limit(self, text: str, rows: int) -> str:
        """The query with at most ``rows`` rows."""
        return limited(text, rows)

    def add_time_range(
        self, text: str, start: Moment | None = None, end: Moment | None = None, column: str | None = None
    ) -> str:
        """The query with only rows whose ``column``, by default the first time of the result, is from ``start`` on,
        before ``end``.
        """
        return in_range(text, self._workspace, start=start, end=end, column=column)

    def as_subquery(self, text: str, alias: str = "q") -> str:
        """The query ``SELECT * FROM (text) AS alias``."""
        return as_subquery(text, alias)

    def transpile(self, text: str, source: Dialect = "sqlstream", target: Dialect = "sqlstream") -> Transpiled:
        """The text in the dialect of ``flink`` or ``spark``, or from these in this one.

        SqlStreamError SS381 with everything that has another meaning there.
        """
        return transpiled(text, source, target, self._workspace)
