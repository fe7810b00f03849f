"""``sqlstream upgrade``: exchanges running jobs for those of changed scripts."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import replace

import click

from sqlstream.cli.check import check_scripts, warnings_of_scripts
from sqlstream.cli.options import PROFILE
from sqlstream.cli.scripts import Script, open_session, read_scripts, written_scripts
from sqlstream.cli.terminal import OK, WRONG_SQL
from sqlstream.errors import SqlStreamError
from sqlstream.secrets import shown_script
from sqlstream.session import Session
from sqlstream.upgrade.comparison import Comparison, compared, comparison_text
from sqlstream.upgrade.exchange import Exchange, Starter
from sqlstream.upgrade.planned import PlannedJob, jobs_of
from sqlstream.upgrade.starting import OwnProcess, ShellCommand

_DIRECTORY = "execution.checkpointing.dir"


def upgrade_command(
    files: tuple[str, ...],
    statements: tuple[str, ...],
    parameters: tuple[str, ...],
    settings: tuple[str, ...],
    master: str | None,
    directory: str | None,
    previous: tuple[str, ...],
    epochs: int,
    patience: float,
    timeout: float,
    discard_state: bool,
    start_with: str | None,
    back_with: str | None,
    dry_run: bool,
) -> int:
    """``sqlstream upgrade``: compares the jobs of scripts with their checkpoints, and exchanges them. Returns the exit
    code.
    """
    if "-" in (*files, *previous):
        raise click.UsageError("an upgrade is made of files, not of standard input: another process reads them")
    if back_with is not None and start_with is None:
        raise click.UsageError("--back-with goes with --start-with")
    settings = (*settings, *([] if directory is None else [f"{_DIRECTORY}={directory}"]))
    used = _used(parameters, previous)
    scripts = read_scripts(files, statements, parameters)
    former = read_scripts(previous, (), used) if previous else []
    with open_session(None, settings) as session:
        if _has_mistakes(scripts, session) or (former and _has_mistakes(former, session)):
            return WRONG_SQL
        comparisons, before = _compared(scripts, session), _compared(former, session)
    _require_directory(comparisons)
    for comparison in comparisons:
        click.echo(comparison_text(comparison))
    _require_exchangeable(comparisons, before, discard_state)
    if dry_run:
        return OK
    jobs = [comparison.job for comparison in comparisons]
    new = _starter(start_with, _run(files, statements, parameters, settings, master), jobs, scripts)
    old = _starter(back_with, _run(previous, (), used, settings, master), jobs, former)
    assert new is not None, "there are scripts"
    exchange = Exchange(comparisons, new, old, epochs, patience, timeout, lambda text: click.echo(text, err=True))
    try:
        exchange.carry_out()
    finally:
        if isinstance(new, OwnProcess) and new.log:
            click.echo(f"log: {new.log}", err=True)
    return OK


def _compared(scripts: Sequence[Script], session: Session) -> list[Comparison]:
    return [compared(job) for job in jobs_of([script.text for script in scripts], session.workspace)]


def _require_directory(comparisons: Sequence[Comparison]) -> None:
    """A misspelt directory would have the jobs begin anew, beside those that run."""
    for folder in {comparison.job.storage.root.parent for comparison in comparisons}:
        if not folder.is_dir():
            raise click.UsageError(f'directory "{folder}" does not exist: no job is there; sqlstream run starts one')


def _require_exchangeable(comparisons: Sequence[Comparison], before: Sequence[Comparison], discards: bool) -> None:
    """Refuse what would fail after the running jobs have been stopped."""
    if not comparisons:
        raise click.UsageError("the scripts have no INSERT and no statement set to upgrade")
    names = {comparison.job.name for comparison in comparisons}
    for comparison in before:
        if comparison.refusal is not None:
            raise click.UsageError(_other_query(comparison)) from comparison.refusal
        if comparison.job.name not in names:
            raise click.UsageError(f'--previous starts the job "{comparison.job.name}", which the new scripts lack')
    refusals = [comparison.refusal for comparison in comparisons if comparison.refusal is not None]
    if refusals and not discards:
        raise _with_way_out(refusals[0])


def _has_mistakes(scripts: Sequence[Script], session: Session) -> bool:
    mistakes = check_scripts(scripts, session)
    for name, diagnostic in [*mistakes, *warnings_of_scripts(scripts)]:
        click.echo(f"{name}: {diagnostic.render()}", err=True)
    return bool(mistakes)


def _used(parameters: Sequence[str], files: Sequence[str]) -> tuple[str, ...]:
    """The parameters that former scripts have as well; one that they lack would be refused as a mistake."""
    texts = "\n".join(script.text for script in written_scripts(files, ())) if files else ""
    names = {given: re.escape(given.partition("=")[0]) for given in parameters}
    return tuple(given for given, name in names.items() if re.search(rf"\${{{name}}}|:{name}\b", texts))


def _other_query(comparison: Comparison) -> str:
    assert comparison.refusal is not None
    reason = comparison.refusal.diagnostic
    return f"--previous is not what the job runs: {reason.message}. {reason.detail or ''}".rstrip()


def _with_way_out(refusal: SqlStreamError) -> SqlStreamError:
    """The error with which the job would refuse its checkpoint, with what to do about it here."""
    hint = "Change the script, or give --discard-state: the new query begins without state, and its sources anew."
    return type(refusal).of([replace(refusal.diagnostic, hint=hint)])


def _run(
    files: Sequence[str],
    statements: Sequence[str],
    parameters: Sequence[str],
    settings: Sequence[str],
    master: str | None,
) -> list[str]:
    """The command that runs scripts in a process of their own, as a deployment runs them."""
    profile = PROFILE.get()
    options = [("-e", statements), ("--param", parameters), ("--set", settings)]
    return [
        sys.executable, "-m", "sqlstream", "run", *files,
        *(argument for option, values in options for value in values for argument in (option, value)),
        *([] if master is None else ["--master", master]),
        *([] if profile is None else ["--profile", profile]),
        "--no-progress", "--savepoint-on-term",
    ]  # fmt: skip


def _starter(
    shell: str | None, command: list[str], jobs: Sequence[PlannedJob], scripts: Sequence[Script]
) -> Starter | None:
    """What starts the scripts: the command line ``shell`` where there is one; None where there are no scripts."""
    if shell is not None:
        return ShellCommand(shell)
    if not scripts:
        return None
    shown = "\n".join(shown_script(script.text) for script in scripts)
    return OwnProcess(command, jobs[0].name, str(jobs[0].storage.root), shown)
