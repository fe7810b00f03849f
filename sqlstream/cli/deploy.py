"""``sqlstream deploy``: writes what runs scripts for good."""

from __future__ import annotations

import os
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import distributions
from pathlib import Path

import click

from sqlstream.analysis import Planner
from sqlstream.cli.check import check_scripts, warnings_of_scripts
from sqlstream.cli.options import pairs, variables
from sqlstream.cli.scripts import Script, open_session, read_scripts, written_scripts
from sqlstream.cli.terminal import OK, WRONG_SQL
from sqlstream.deploy import container, helm, kubernetes, spark_operator, spark_submit, systemd
from sqlstream.deploy.deployment import (
    Deployment,
    ScriptFile,
    checkpoints_of_scripts,
    only_defines,
    require_no_secrets,
    starts_jobs,
)
from sqlstream.secrets import REFERENCE
from sqlstream.udfs.texts import reason_of
from sqlstream.version import __version__

Files = Callable[[Deployment], dict[str, str]]

TARGETS: dict[str, Files] = {
    "systemd": systemd.files,
    "compose": container.compose_files,
    "kubernetes": kubernetes.files,
    "helm": helm.files,
    "spark-operator": spark_operator.files,
    "spark-submit": spark_submit.files,
}

_OF_CLUSTERS = ("spark-submit", "spark-operator")
"""Targets whose executors are on other machines than the driver."""

_OF_ONE_CONTAINER = ("compose", "kubernetes", "helm")
"""Targets that run everything in one container, with a volume for relative paths."""

_MOUNTED = {
    "compose": 'add "{0}:{0}" to the volumes of the service, or its rows are lost with the container',
    **dict.fromkeys(("kubernetes", "helm"), "mount a volume at {0}, or its rows are lost with the pod"),
    "spark-operator": "mount a volume at {0} in driver and executors, or write one in a store that all reach",
}
"""What is to be done about an absolute path of a table, by the targets that have no volume for it."""

_JOBS = ("INSERT INTO", "INSERT OVERWRITE", "EXECUTE STATEMENT SET")
"""The statements that run as jobs."""

_NAME = re.compile(r"[a-z]([-a-z0-9]{0,50}[a-z0-9])?")
_MEMORY = re.compile(r"[1-9]\d*[MG]i")


def deploy_command(
    files: tuple[str, ...],
    target: str,
    folder: str | None,
    name: str | None,
    directory: str | None,
    image: str | None,
    master: str | None,
    memory: str,
    metrics_port: int,
    settings: tuple[str, ...],
    parameters: tuple[str, ...],
    wheels: tuple[str, ...],
    dry_run: bool,
) -> int:
    """Writes the files of a deployment, or prints them. Returns the exit code."""
    if "-" in files:
        raise click.UsageError("a deployment is made of files, not of standard input")
    _require_wheels([Path(wheel) for wheel in wheels])
    with variables(dict.fromkeys(_unknown_variables(files, settings), _UNKNOWN)):
        scripts = read_scripts(files, (), parameters)
        if _has_mistakes(scripts, settings):
            return WRONG_SQL
        ends = _all_jobs_end(scripts, settings)
    texts = _named(scripts)
    if all(map(only_defines, texts)):
        raise click.UsageError("the scripts only define: give the files with their INSERT or statement set, too")
    called = _deployment_name(name, texts)
    own = checkpoints_of_scripts(texts)
    if own is not None and directory is not None and own != directory:
        raise click.UsageError(f'a script sets the directory of checkpoints to "{own}"; leave out --dir')
    deployment = Deployment(
        called,
        texts,
        pairs(settings, "--set"),
        own or directory,
        own is not None,
        image or f"{called}:latest",
        master,
        _required_memory(memory),
        metrics_port,
        ends,
        tuple(Path(wheel).name for wheel in wheels),
    )
    if target in _OF_CLUSTERS and deployment.checkpoints is None:
        raise click.UsageError(f"--target {target} needs --dir, a directory that all machines of the cluster reach")
    require_no_secrets(deployment)
    for warning in (*_package_warnings(deployment), *_end_warnings(deployment), *_path_warnings(deployment, target)):
        click.echo(f"warning: {warning}", err=True)
    made = TARGETS[target](deployment)
    if dry_run:
        for path, text in made.items():
            click.echo(f"--- {path}\n{text}", nl=False)
        for wheel in wheels:
            click.echo(f"--- {Path(wheel).name}\na copy of {wheel}")
    else:
        _write(Path(folder or f"deploy-{called}"), made, [Path(wheel) for wheel in wheels])
    return OK


def _all_jobs_end(scripts: Sequence[Script], settings: Sequence[str]) -> bool:
    """Whether what the scripts read has an end, so that their jobs have ended then."""
    with open_session(None, settings) as session:
        analysis = Planner().with_session(session).analyze(";\n".join(script.text for script in scripts))
    jobs = [statement.bounded for statement in analysis.statements if statement.kind in _JOBS]
    return bool(jobs) and all(jobs)


def _end_warnings(deployment: Deployment) -> Iterator[str]:
    if deployment.ends:
        yield (
            "all that the scripts read has an end: their jobs end with it, and are not started again for new rows; "
            "tables of files go on with 'source.monitor-interval'"
        )


def _path_warnings(deployment: Deployment, target: str) -> Iterator[str]:
    """What paths of tables mean where the scripts run, as far as it is not what they mean here."""
    kept = {"systemd": systemd.work(deployment), **dict.fromkeys(_OF_ONE_CONTAINER, f"the volume {container.DATA}")}
    for folder in deployment.folders:
        path = f'the path "{folder.path}" of table "{folder.table}" is'
        if target in _MOUNTED and not folder.is_relative:
            yield f"{path} one of the container: {_MOUNTED[target].format(folder.path.removeprefix('file://'))}"
        elif folder.is_relative and target == "spark-submit":
            yield f"{path} relative, and is looked for in the folder of start.sh: write an absolute one"
        elif folder.is_relative and target not in kept:
            yield f"{path} relative, and is looked for in each pod by itself: write one in a store that all reach"
        elif folder.is_relative and not folder.written:
            yield f"{path} relative, and is looked for in {kept[target]}: put its files there, or write an absolute one"


_UNKNOWN = "known-where-it-runs"


def _unknown_variables(files: Sequence[str], settings: Sequence[str]) -> set[str]:
    """The variables that scripts and settings refer to and that this process does not have, nor needs."""
    texts = [*(script.text for script in written_scripts(files, ())), *settings]
    return {name for text in texts for name in REFERENCE.findall(text)} - os.environ.keys()


def _has_mistakes(scripts: Sequence[Script], settings: Sequence[str]) -> bool:
    with open_session(None, settings) as session:
        mistakes = check_scripts(scripts, session)
    for name, diagnostic in [*mistakes, *warnings_of_scripts(scripts)]:
        click.echo(f"{name}: {diagnostic.render()}", err=True)
    return bool(mistakes)


def _named(scripts: Sequence[Script]) -> tuple[ScriptFile, ...]:
    """The scripts under the names of their files, which must differ."""
    texts = tuple(ScriptFile(Path(s.name).name, s.text) for s in scripts)
    for script in texts:
        if [other.name for other in texts].count(script.name) > 1:
            raise click.UsageError(f'two files are called "{script.name}"')
        if not re.fullmatch(r"[\w.-]+", script.name):
            raise click.UsageError(f'"{script.name}" is no name for a file of a deployment: rename it')
    return texts


def _deployment_name(given: str | None, scripts: Sequence[ScriptFile]) -> str:
    first = next((script for script in scripts if starts_jobs(script)), scripts[0])
    name = given or re.sub(r"[^a-z0-9]+", "-", Path(first.name).stem.lower()).strip("-")
    if not _NAME.fullmatch(name):
        hint = "It has letters of a to z, digits and -, begins with a letter, and has at most 52 of them: --name NAME."
        raise click.UsageError(f'"{name}" is no name of a deployment. {hint}')
    return name


def _required_memory(memory: str) -> str:
    if not _MEMORY.fullmatch(memory):
        raise click.UsageError(f'"{memory}" is no --memory; write it as 4Gi or 1500Mi')
    return memory


def _require_wheels(wheels: Sequence[Path]) -> None:
    """The wheel of a checkout, or both of a release, of which ``sqlstream`` holds nothing and needs the other one."""
    names: list[str] = []
    for wheel in wheels:
        if not re.fullmatch(r"sqlstream(_planner)?-[\w.+-]+\.whl", wheel.name) or not zipfile.is_zipfile(wheel):
            raise click.UsageError(f'"{wheel}" is no wheel of sqlstream; pip wheel --no-deps . in a clone makes one')
        with zipfile.ZipFile(wheel) as archive:
            names += archive.namelist()
    if wheels and not any(wheel.name.startswith("sqlstream-") for wheel in wheels):
        raise click.UsageError(f'"{wheels[0]}" plans, and runs nothing; give the wheel of sqlstream, too: --wheel FILE')
    if wheels and "sqlstream/__init__.py" not in names:
        raise click.UsageError(f'"{wheels[0]}" holds no modules; give that of sqlstream-planner, too: --wheel FILE')


def _package_warnings(deployment: Deployment) -> Iterator[str]:
    """Where this package is of no index, an index has none, or that of another project."""
    is_from_files = any(found.read_text("direct_url.json") is not None for found in distributions(name="sqlstream"))
    if is_from_files and not deployment.wheels:
        yield (
            f"the files install sqlstream {__version__} of a package index, and this one is of none: give its wheel, "
            "--wheel FILE; pip wheel --no-deps . in a clone makes it"
        )


def _write(folder: Path, made: dict[str, str], wheels: Sequence[Path]) -> None:
    """Write the files, and copies of the wheels, into a folder; nothing is overwritten that is there."""
    copies = {wheel: folder / wheel.name for wheel in wheels if wheel.parent.resolve() != folder.resolve()}
    there = [path for path in (*(folder / path for path in made), *copies.values()) if path.exists()]
    if there:
        raise click.UsageError(f'"{there[0]}" exists; give another folder: --to FOLDER')
    try:
        for path, text in made.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
            if path.endswith(".sh"):
                (folder / path).chmod(0o755)
            if path == "secrets.env":
                (folder / path).chmod(0o600)
            click.echo(str(folder / path))
        for wheel, copy in copies.items():
            click.echo(shutil.copy(wheel, copy))
    except OSError as error:
        raise click.UsageError(f'"{folder}" cannot be written: {reason_of(error)}') from error
