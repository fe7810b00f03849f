"""EXPLAIN, which prints a plan at a stage, and COMPILE PLAN and EXECUTE PLAN, which keep one in a file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlstream.batch import Batch, chosen
from sqlstream.batch.choosing import NO_PLAN_OF_BATCH, explained_batch, why_stream
from sqlstream.batch.running import Batches
from sqlstream.catalogs.declaring import create_table
from sqlstream.catalogs.functions import function_statement
from sqlstream.connectors import discards_rows
from sqlstream.connectors.secrets import masked, secrets_of_plan, without_secrets
from sqlstream.errors import BindError, Span, SqlStreamError, UnsupportedError
from sqlstream.grammar import format_script, nodes, parse_script, to_sql
from sqlstream.planner.binder.hints import without_effect
from sqlstream.planner.catalog import Function, FunctionKind, Table, View
from sqlstream.planner.explain import PLANNER_STAGES, explain, formats_of, to_json
from sqlstream.planner.explain.html import html_page
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Scan
from sqlstream.planner.physical import EngineSettings, explain_physical, physical_plan
from sqlstream.planner.rules import optimize
from sqlstream.plans import Root, bound_plan, engine_settings_of, missing_sources, require_sources, rules_of
from sqlstream.results import Rows
from sqlstream.runner import Runner
from sqlstream.statements.definitions import CreateFunction, CreateTable, CreateView
from sqlstream.statements.materialized_views import declared_materialized, statement_of
from sqlstream.statements.queries import Write, planned, start_insert
from sqlstream.statements.statement import OK, Execution, StatementType
from sqlstream.udfs.hiding import hiding
from sqlstream.version import __version__
from sqlstream.workspace import Workspace

if TYPE_CHECKING:
    from sqlstream.jobs import Job


# --- EXPLAIN --------------------------------------------------------------------------------------------------

NO_PLAN = "SS283"
NO_SUCH_FORMAT = "SS344"

_SPARK_STAGES = ("PHYSICAL", "SPARK")
_OF_FLINK = ("ESTIMATED_COST", "JSON_EXECUTION_PLAN")
_NO_COST = "Costs are not estimated: a stream has no number of rows. EXPLAIN PHYSICAL says what each step does."


class Explain(StatementType[nodes.Explain]):
    """Carries out EXPLAIN of a query, an INSERT or another statement that has a plan."""

    def check(self, statement: nodes.Explain, scratch: Workspace, text: str) -> bool:
        """Plans the explained statement, which finds its mistakes, as EXPLAIN itself would."""
        executes = isinstance(statement.statement, nodes.ExecutePlan)  # whose file the script may write
        if not executes and _batch_of(statement, scratch) is None:
            explained_plan(statement, scratch)
        return True

    def run(self, statement: nodes.Explain, execution: Execution) -> Rows:
        """Return the plan, a row per line."""
        text = _as_table(statement, execution) if execution.as_table else None
        if text is None:
            text = explained(statement, execution.workspace, execution.runner, execution.batches, says_way=True)
        return Rows.of_text(("plan",), [(line,) for line in text.splitlines()])

    def needs_spark(self, statement: nodes.Explain) -> bool:
        """Whether the statement always needs Spark, which EXPLAIN of the stage SPARK does."""
        return statement.stage == "SPARK"


def _as_table(statement: nodes.Explain, execution: Execution) -> str | None:
    """The batch that a query is for callers that read tables; None where it is none."""
    query, workspace = statement.statement, execution.workspace
    if statement.more or statement.stage not in ("OPTIMIZED", "PHYSICAL", "SPARK") or statement.format == "MERMAID":
        return None
    plan = chosen(query, workspace, finished=True) if isinstance(query, nodes.Query) else None
    return explained_batch(plan, statement, workspace, execution.batches) if isinstance(plan, Batch) else None


def explained(
    statement: nodes.Explain, workspace: Workspace, runner: Runner, batches: Batches, *, says_way: bool = False
) -> str:
    """Returns the text of EXPLAIN for a statement.

    The stage SPARK starts Spark. PHYSICAL starts it only if Spark must say who reads a table's files. ``says_way`` adds
    a line with the reason why the query runs as a stream.
    """
    if isinstance(statement.statement, nodes.ExecutePlan):
        compiled, workspace = compiled_plan(statement.statement.path, workspace, statement.span)
        return explained(replace(statement, statement=compiled), workspace, runner, batches, says_way=says_way)
    if statement.more or statement.stage in _OF_FLINK:
        return _sections(statement, workspace, runner, batches)
    batch = _batch_of(statement, workspace)
    if batch is not None:
        return explained_batch(batch, statement, workspace, batches)
    plan = explained_plan(statement, workspace)
    if statement.stage in PLANNER_STAGES:
        text = explain(without_secrets(plan), statement.format, statement.stage, rules_of(workspace.settings))
        says_why = says_way and statement.stage == "OPTIMIZED" and statement.format == "TEXT"
        inner = _chosen(statement)
        if not says_why or inner is None:
            return text
        ignored = "".join(f"\nhint {name}: of no effect on a stream" for name in without_effect(inner.query))
        return f"{text}\n{why_stream(inner, workspace)}{ignored}"
    secrets = secrets_of_plan(plan) + workspace.settings.secrets
    with hiding(secrets):
        return secrets.hidden(_explained_below(plan, statement, workspace, runner))


def _sections(statement: nodes.Explain, workspace: Workspace, runner: Runner, batches: Batches) -> str:
    """The details that Flink lists behind EXPLAIN, each below its name where there are several."""
    if statement.format != "TEXT":
        message = f"a list of EXPLAIN in the format {statement.format} is not executed"
        hint = "Write EXPLAIN FORMAT JSON with one stage, or the list without FORMAT."
        raise UnsupportedError(NO_SUCH_FORMAT, message, statement.span, hint=hint)
    stages = (statement.stage, *statement.more)
    texts = [_section(stage, replace(statement, stage=stage, more=()), workspace, runner, batches) for stage in stages]
    if len(stages) == 1:
        return texts[0]
    return "\n\n".join(f"== {stage} ==\n{text}" for stage, text in zip(stages, texts, strict=True))


def _section(stage: str, statement: nodes.Explain, workspace: Workspace, runner: Runner, batches: Batches) -> str:
    match stage:
        case "ESTIMATED_COST":
            plan = explained(replace(statement, stage="OPTIMIZED"), workspace, runner, batches)
            return f"{plan}\n{_NO_COST}"
        case "JSON_EXECUTION_PLAN":
            return explained(replace(statement, stage="OPTIMIZED", format="JSON"), workspace, runner, batches)
    if stage == "ADVICE" and _batch_of(statement, workspace) is not None:
        return "Nothing to say about this plan: it runs as a batch."
    if stage == "CHANGELOG_MODE" and _batch_of(statement, workspace) is not None:
        return "A batch has final rows only: +I."
    return explained(statement, workspace, runner, batches)


def _explained_below(plan: Root, statement: nodes.Explain, workspace: Workspace, runner: Runner) -> str:
    """The stages below the planner."""
    optimized = optimize(plan, rules_of(workspace.settings))
    if statement.stage == "PHYSICAL":
        return explain_physical(physical_plan(optimized, _engine_settings(optimized, workspace, runner)))
    require_sources(optimized)
    return runner.explained_by_spark(optimized, workspace)


@dataclass(frozen=True)
class _Sources:
    """What planning asks about the tables and functions of a plan. Spark starts where tasks may read files: it helps to
    find that out.
    """

    plan: Node
    workspace: Workspace
    runner: Runner

    @property
    def zone(self) -> str | None:
        from sqlstream.udfs.expressions.evaluation import same_zone  # it loads Arrow, which planning does not

        return same_zone(self.workspace.settings["table.local-time-zone"])

    def reads_files(self, scan: Scan) -> bool:
        if self.workspace.settings["sqlstream.file-reader"] == "spark":
            return False
        missing = missing_sources(self.plan)
        if missing and any(node.keeps_state for node in self.plan.walk()):
            raise SqlStreamError.of(missing)
        return not missing and self.runner.runtime(self.workspace).sources.reads_files(scan)

    def discards(self, table: Table) -> bool:
        return discards_rows(table)

    def function(self, name: str) -> Function | None:
        return self.workspace.catalog.function(name)


def _engine_settings(plan: Node, workspace: Workspace, runner: Runner) -> EngineSettings:
    """The engine settings of the session."""
    return replace(engine_settings_of(workspace.settings), sources=_Sources(plan, workspace, runner))


def plan_page(statement: nodes.Query | nodes.Insert | nodes.StatementSet, workspace: Workspace) -> str:
    """The optimized plan as a page of HTML. UnsupportedError SS603 where the statement runs as a batch."""
    if not isinstance(statement, nodes.StatementSet) and isinstance(chosen(statement, workspace), Batch):
        message = "a batch has no plan of operators that a page could show"
        raise UnsupportedError(NO_PLAN_OF_BATCH, message, statement.span, hint="EXPLAIN PHYSICAL shows Spark's plan.")
    plan = without_secrets(optimize(bound_plan(statement, workspace), rules_of(workspace.settings)))
    assert isinstance(plan, Root)
    return html_page(plan, to_sql(statement))


def _chosen(statement: nodes.Explain) -> nodes.Query | nodes.Insert | None:
    """What of the statement inside may run as a batch."""
    match statement.statement:
        case nodes.Query() | nodes.Insert() as inner:
            return inner
        case nodes.CreateTable(query=query) as inner if query is not None:
            return nodes.Query(query, span=inner.span)
    return None


def _batch_of(statement: nodes.Explain, workspace: Workspace) -> Batch | None:
    _require_format(statement)
    inner = _chosen(statement)
    way = None if inner is None else chosen(inner, workspace)
    return way if isinstance(way, Batch) else None


def explained_plan(statement: nodes.Explain, workspace: Workspace) -> Root:
    """The plan, before optimization, of the statement that EXPLAIN explains. Raises an error if the statement has no
    plan, or if its stage does not have the format that EXPLAIN names.
    """
    _require_format(statement)
    match statement.statement:
        case nodes.Query() | nodes.Insert() | nodes.StatementSet() as inner:
            return bound_plan(inner, workspace)
        case nodes.CreateTable(query=query) as inner if query is not None:
            return bound_plan(nodes.Query(query, span=inner.span), workspace)
        case nodes.CreateMaterializedView() as inner:
            return bound_plan(*statement_of(declared_materialized(inner, workspace, ""), workspace))
    raise BindError(NO_PLAN, "CREATE TABLE without a query has no plan", statement.statement.span)


def _require_format(statement: nodes.Explain) -> None:
    stage, chosen = statement.stage, statement.format
    if stage in _OF_FLINK or statement.more:
        return
    if stage not in (*PLANNER_STAGES, *_SPARK_STAGES):
        hint = f"The stages are {', '.join((*PLANNER_STAGES, *_SPARK_STAGES))}."
        raise UnsupportedError(NO_SUCH_FORMAT, f'EXPLAIN has no stage "{stage}"', statement.span, hint=hint)
    formats = formats_of(stage) if stage in PLANNER_STAGES else ("TEXT",)
    if chosen not in formats:
        message = f"EXPLAIN {stage} in the format {chosen} is not executed"
        hint = f"The formats of this stage are {', '.join(formats)}; the stage OPTIMIZED has all."
        raise UnsupportedError(NO_SUCH_FORMAT, message, statement.span, hint=hint)


# --- COMPILE PLAN and EXECUTE PLAN ----------------------------------------------------------------------------
# The file holds the statement and its definitions as SQL, which every later version reads, and this version's plan for
# information. EXECUTE PLAN plans the statement anew, over the definitions of the file and not those of the catalog.

EXISTS = "SS371"
NO_PLAN_FILE = "SS372"
SECRET = "SS373"
VERSION = 1
FORCE = "table.plan.force-recompile"

_NAME = re.compile(r"(?:`(?:[^`]|``)+`|\w+)(?:\.(?:`(?:[^`]|``)+`|\w+))*")
_PREFIXES = ("table.", "pipeline.operator-chaining", "sqlstream.functions.")


class CompilePlan(StatementType[nodes.CompilePlan]):
    """Carries out COMPILE PLAN, which writes the plan of a statement to a file, and COMPILE AND EXECUTE PLAN, which
    also starts its job.
    """

    def check(self, statement: nodes.CompilePlan, scratch: Workspace, text: str) -> bool:
        """Plans the statement, which finds its mistakes; no file is written."""
        planned(statement.statement, scratch)
        return True

    def run(self, statement: nodes.CompilePlan, execution: Execution) -> Rows | Job:
        """Writes the plan to its file. COMPILE AND EXECUTE PLAN also starts the job and returns it."""
        compile_plan(statement, execution.workspace)
        return _execute_plan(statement.path, statement.span, execution) if statement.execute else OK

    def starts_job(self, statement: nodes.CompilePlan) -> bool:
        """Whether the statement starts a job, which COMPILE AND EXECUTE PLAN does."""
        return statement.execute


class ExecutePlan(StatementType[nodes.ExecutePlan]):
    """Carries out EXECUTE PLAN, which starts the job of a compiled plan. Checking a script does not read the plan's
    file, because the script itself may write it.
    """

    def run(self, statement: nodes.ExecutePlan, execution: Execution) -> Job:
        """Start the job of the statement in the file."""
        return _execute_plan(statement.path, statement.span, execution)

    def starts_job(self, statement: nodes.ExecutePlan) -> bool:
        """Whether the statement starts a job: EXECUTE PLAN always does."""
        return True


def _execute_plan(path: str, span: Span, execution: Execution) -> Job:
    compiled, workspace = compiled_plan(path, execution.workspace, span)
    return start_insert(compiled, execution.within(workspace, to_sql(compiled)))


def compile_plan(statement: nodes.CompilePlan, workspace: Workspace) -> None:
    """Write the compiled plan to its file. SS371 where the file exists, SS373 where an option of a table is a
    secret.
    """
    plan, file = planned(statement.statement, workspace), Path(statement.path)
    if file.exists() and not workspace.settings[FORCE]:
        if statement.if_not_exists or statement.execute:
            return
        hint = f"Write IF NOT EXISTS, remove the file, or SET '{FORCE}' = 'true'."
        raise BindError(EXISTS, f'the file "{file}" exists already', statement.span, hint=hint)
    text = json.dumps(_document(statement.statement, plan, workspace), ensure_ascii=False, indent=2)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise BindError(
            NO_PLAN_FILE, f'the plan cannot be written into "{file}": {error.strerror}', statement.span
        ) from error


def compiled_plan(path: str, workspace: Workspace, span: Span | None = None) -> tuple[Write, Workspace]:
    """Reads a compiled plan. Returns a pair: its statement, and a workspace with the definitions that it was compiled
    with. SS372 if the file is missing or invalid.
    """
    document = _read(path, span)
    scratch = workspace.copy()
    for key, value in document["settings"].items():
        scratch.settings.set(key, value)
    for text in document["definitions"]:
        _redefine(text, scratch)
    (statement,) = parse_script(document["statement"])
    if not isinstance(statement, Write):
        raise _no_plan(path, span, "It holds no INSERT.")
    return statement, scratch


def _document(statement: Write, plan: Root | Batch, workspace: Workspace) -> dict[str, Any]:
    text = to_sql(statement)
    settings = {key: value for key, value in workspace.settings.given.items() if key.startswith(_PREFIXES)}
    document = {
        "version": VERSION,
        "sqlstream": __version__,
        "statement": text,
        "definitions": list(_definitions(text, workspace, set(), statement.span)),
        "settings": settings,
    }
    return document if isinstance(plan, Batch) else {**document, "plan": to_json(without_secrets(plan))}


def _definitions(text: str, workspace: Workspace, seen: set[str], span: Span) -> Iterator[str]:
    """Those that the text names, each behind the ones that it names itself."""
    catalog = workspace.catalog
    for name in dict.fromkeys(match[0].replace("`", "") for match in _NAME.finditer(text)):
        for definition in (catalog.relation(name), catalog.function(name)):
            if definition is None or definition.name in seen:
                continue
            seen.add(definition.name)
            if isinstance(definition, View):
                yield from _definitions(to_sql(definition.query), workspace, seen, span)
            if isinstance(definition, Function) and definition.kind is FunctionKind.SQL:
                called = " ".join((definition.target, *(text for _, text in definition.defaults)))
                yield from _definitions(called, workspace, seen, span)
            yield format_script(to_sql(_statement(definition, span))).strip()


def _statement(definition: Table | View | Function, span: Span) -> nodes.Statement:
    name = nodes.Name((definition.name,))
    match definition:
        case Table():
            shown = zip(definition.options, masked(definition.options), strict=True)
            secret = next((key for (key, value), (_, text) in shown if value != text), None)
            if secret is not None:
                message = f'option "{secret}" of table "{definition.name}" holds a secret, which stands in no file'
                raise UnsupportedError(SECRET, message, span, hint="Write ${NAME}, a variable of the environment.")
            return create_table(definition)
        case View():
            return nodes.CreateView(name, definition.query, definition.columns)
    return function_statement(definition)


def _redefine(text: str, workspace: Workspace) -> None:
    """Define what the text says in place of what has its name; a function that is registered with the same target is
    left as it is."""
    (statement,) = parse_script(text)
    if isinstance(statement, nodes.CreateFunction):
        registered = workspace.catalog.function(str(statement.name))
        if statement.definition is None and registered is not None and registered.target == statement.target:
            return
        CreateFunction().define(replace(statement, replace=True), workspace, text)
        return
    assert isinstance(statement, nodes.CreateTable | nodes.CreateView), text
    existing = workspace.catalog.relation(str(statement.name))
    if existing is not None:
        kind = "VIEW" if isinstance(existing, View) else "TABLE"
        workspace.catalog.drop(kind, replace(statement.name, parts=(existing.name,)))
    if isinstance(statement, nodes.CreateTable):
        CreateTable().define(statement, workspace, text)
    else:
        CreateView().define(statement, workspace, text)


def _read(path: str, span: Span | None) -> dict[str, Any]:
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise _no_plan(path, span, f"It cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise _no_plan(path, span, "It is no JSON.") from error
    wanted = {"statement": str, "definitions": list, "settings": dict, "version": int}
    if not isinstance(document, dict) or not all(isinstance(document.get(k), kind) for k, kind in wanted.items()):
        raise _no_plan(path, span, "It lacks what COMPILE PLAN writes.")
    if document["version"] > VERSION:
        raise _no_plan(path, span, f"A later version of sqlstream has written it, {document.get('sqlstream')}.")
    return document


def _no_plan(path: str, span: Span | None, detail: str) -> SqlStreamError:
    hint = "COMPILE PLAN 'path' FOR INSERT INTO … writes one."
    return BindError(NO_PLAN_FILE, f'"{path}" is no plan that can be executed', span, detail=detail, hint=hint)
