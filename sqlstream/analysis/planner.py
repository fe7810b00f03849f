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
from sqlstream.plans import Root, bound_plan, engine_settings_of, rules_of
from sqlstream.statements.registry import define, is_definition
from sqlstream.vocabulary import SessionVocabulary
from sqlstream.workspace import Workspace

if TYPE_CHECKING:
    from sqlstream.session import Session


NO_PLAN = "SS283"


@dataclass(frozen=True)
class Planner:
    """Answers questions about SQL statements and a catalog without executing anything, and without Spark, Java or
    pandas.

    A planner is immutable: each ``with_…`` method returns a new one with more definitions. Results are frozen
    dataclasses (``sqlstream.analysis.answers``) that ``to_dict`` converts for JSON::

        from sqlstream.planner import Planner

        planner = Planner().with_tables({"bids": {"auction": "BIGINT", "price": "DOUBLE", "ts": "TIMESTAMP(3)"}})
        (select,) = planner.analyze("SELECT auction, MAX(price) AS top FROM bids GROUP BY auction")
        select.columns[1].type, select.columns[1].sources  # ('DOUBLE', ('bids.price',))

    ``analyze`` and ``check`` report errors in the text as problems. All other methods raise ``SqlStreamError`` for
    them.
    """

    _workspace: Workspace = field(default_factory=Workspace, repr=False, compare=False)

    # --- the catalog ---

    def with_ddl(self, text: str) -> Planner:
        """Returns a planner that also has the definitions in a script: tables, views, functions, catalogs and
        settings.
        """
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
        """Returns a planner that also has these tables. Each is a dictionary from column to type, or has more than
        columns::

            {"bids": {"columns": {"id": "BIGINT NOT NULL", "ts": "TIMESTAMP(3)"}, "primary_key": ["id"],
                      "watermark": ["ts", "ts - INTERVAL '5' SECOND"], "comment": "…", "options": {"connector": "…"}}}

        With ``query`` instead of ``columns`` it is a view. Descriptions are checked when a table is used.
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
        """Returns a planner that also has the definitions in an SQL file, or the tables in a JSON file in the format
        of ``with_tables``.
        """
        file = Path(path)
        if file.suffix == ".json":
            return self.with_tables(tables_of_file(file))
        return self.with_ddl(file.read_text(encoding="utf-8"))

    def with_database(self, name: str, options: Mapping[str, str]) -> Planner:
        """Returns a planner that also has the tables of a database, in a catalog called ``name`` that becomes the
        current one.

        They are read from the database's information schema when they are used. ``options`` are those of CREATE
        CATALOG: ``{"type": "jdbc", "url": "jdbc:postgresql://host/db"}``, or ``{"type": "duckdb", "path":
        "file.db"}``.
        """
        workspace = self._workspace.copy()
        given = tuple(nodes.Option(key, value) for key, value in options.items())
        define(nodes.CreateCatalog(nodes.Name((name,)), given), workspace, "")
        define(nodes.Use("CATALOG", nodes.Name((name,))), workspace, "")
        return Planner(workspace)

    def with_session(self, session: Session) -> Planner:
        """Returns a planner with the catalog and settings of a session, including Spark's tables. Definitions of this
        planner are dropped.
        """
        return Planner(session.workspace.copy())

    def with_settings(self, settings: Mapping[str, str]) -> Planner:
        """Returns a planner with these settings, as in SET, such as ``table.exec.state.ttl``."""
        workspace = self._workspace.copy()
        for key, value in settings.items():
            workspace.settings.set(key, value)
        return Planner(workspace)

    # --- what a text says ---

    def analyze(self, text: str) -> Analysis:
        """Returns the analysis of each statement: problems with fixes, columns with lineage, tables, functions, state
        and fingerprint; and the parameters.
        """
        return analyzed(text, self._workspace)

    def check(self, text: str) -> tuple[Problem, ...]:
        """Returns the problems of all statements, in text order."""
        return self.analyze(text).problems

    def fingerprint(self, text: str) -> str:
        """Returns a hash of one query or INSERT that is equal for all texts with the same optimized plan."""
        fingerprint = self._one(text).fingerprint
        assert fingerprint is not None, "what has a plan has a fingerprint"
        return fingerprint

    def plan(self, text: str, stage: str = "optimized", format: str = "text") -> str:  # noqa: A002
        """Returns the plan of one query, INSERT or statement set as text.

        ``stage``: logical, optimized, trace, changelog_mode, advice or physical. ``format``: text, json or mermaid, as
        far as the stage supports it.
        """
        bound, settings = self._bound(text), self._workspace.settings
        rules = rules_of(settings)
        if stage.upper() == "PHYSICAL":
            return explain_physical(physical_plan(optimize(bound, rules), engine_settings_of(settings)))
        if stage.upper() not in PLANNER_STAGES:
            raise ValueError(f"no stage {stage!r}; stages are {', '.join(s.lower() for s in PLANNER_STAGES)}, physical")
        return explain(without_secrets(bound), format.upper(), stage.upper(), rules)

    def plan_json(self, text: str) -> dict[str, Any]:
        """Returns the optimized plan as JSON, which ``sqlstream.planner.from_json`` reads and ``plan_schema``
        describes.
        """
        return to_json(without_secrets(optimize(self._bound(text), rules_of(self._workspace.settings))))

    def html(self, text: str) -> str:
        """Returns a self-contained HTML page that shows the plan with schemas, lineage and state."""
        plan = without_secrets(optimize(self._bound(text), rules_of(self._workspace.settings)))
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

    def knowing(self, text: str) -> Planner:
        """Returns a planner that also has the definitions (CREATE, USE, SET) in a text that is being edited. Those with
        errors are left out.
        """
        planner = self
        for statement in self.analyze(text):
            if statement.ok and statement.kind.startswith(("CREATE", "USE", "SET")):
                try:
                    planner = planner.with_ddl(text[statement.span.start : statement.span.end])
                except SqlStreamError:
                    continue
        return planner

    def complete(self, text: str, at: int) -> list[Suggestion]:
        """Returns completions at the character offset ``at``, most likely first."""
        return complete(text, at, SessionVocabulary(self._workspace))

    def hover(self, text: str, at: int) -> Hover | None:
        """Returns a description of the name at the character offset ``at``, in Markdown; None if there is none."""
        return hovered(text, at, self._workspace)

    def places(self, text: str, at: int) -> tuple[Span, ...]:
        """Returns the spans of all occurrences of the table, view or WITH query at the offset ``at``, its definition
        first; empty if the text does not define it.
        """
        return places_of(text, at)

    def format(self, text: str) -> str:
        """Returns the text in the standard layout."""
        return format_script(text)

    # --- other texts ---

    def add_filter(self, text: str, *conditions: str) -> str:
        """Returns a query for those rows that satisfy all conditions. Conditions refer to the result columns of the
        given query.
        """
        return filtered(text, conditions, self._workspace)

    def push_filters(self, text: str, conditions: Sequence[str]) -> Pushed:
        """Adds conditions to a query. Returns the new query, with the information which conditions its sources evaluate
        and which are left to operators.
        """
        return pushed(text, conditions, self._workspace)

    def add_limit(self, text: str, rows: int) -> str:
        """Returns a query for at most ``rows`` rows of the given query."""
        return limited(text, rows)

    def add_time_range(
        self, text: str, start: Moment | None = None, end: Moment | None = None, column: str | None = None
    ) -> str:
        """Returns a query for those rows whose ``column`` is ``start`` or later and before ``end``. The default column
        is the first time column of the result.
        """
        return in_range(text, self._workspace, start=start, end=end, column=column)

    def as_subquery(self, text: str, alias: str = "q") -> str:
        """Returns the query ``SELECT * FROM (text) AS alias``."""
        return as_subquery(text, alias)

    def transpile(self, text: str, source: Dialect = "sqlstream", target: Dialect = "sqlstream") -> Transpiled:
        """Translates the text between this dialect and that of ``flink`` or ``spark``.

        Raises SqlStreamError SS381 with everything whose meaning would change.
        """
        return transpiled(text, source, target, self._workspace)
