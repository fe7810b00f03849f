"""A deployment as data: scripts, settings, checkpoints and the names of secrets, before any target."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlstream.errors import ConnectorError
from sqlstream.grammar import parse_script
from sqlstream.grammar.nodes import (
    CreateCatalog,
    CreateDatabase,
    CreateFunction,
    CreateTable,
    CreateView,
    Insert,
    Set,
    StatementSet,
    Use,
)
from sqlstream.secrets import REFERENCE, shown_script, shown_value
from sqlstream.version import __version__

SECRET_VALUE = "SS478"
CHECKPOINTS = "execution.checkpointing.dir"
STOP_SECONDS = 300
"""How long a deployment may take to stop: an epoch to its end, and a savepoint."""
RETRIES = 1000
"""How often what has failed is started again, where a number must be given."""

_EXTRAS = {
    "jdbc": "postgres", "postgres": "postgres", "postgres-cdc": "postgres", "mysql-cdc": "mysql", "redis": "redis",
    "http": "http", "sse": "http", "webhook": "http", "websocket": "http", "kafka": "kafka", "upsert-kafka": "kafka",
    "duckdb": "duckdb", "delta": "delta", "iceberg": "iceberg",
}  # fmt: skip
"""The extra of the package that a connector needs; the others need none."""
_CONNECTOR = re.compile(r"'connector'\s*=\s*'([\w-]+)'")


@dataclass(frozen=True)
class ScriptFile:
    """A script under the name that it has in the deployment."""

    name: str
    text: str


@dataclass(frozen=True)
class TableFolder:
    """The path of a table's files on the machine that runs the scripts. ``written``: by an INSERT of theirs."""

    table: str
    path: str
    written: bool

    @property
    def is_relative(self) -> bool:
        """Whether it depends on the folder in which the scripts run."""
        return not self.path.removeprefix("file://").startswith("/")


def _targets(statement: object) -> Iterator[str]:
    """The last parts of the names of the tables that a statement writes, in small letters."""
    match statement:
        case Insert():
            yield statement.target.parts[-1].casefold()
        case StatementSet():
            for insert in statement.inserts:
                yield from _targets(insert)


@dataclass(frozen=True)
class Deployment:
    """What is to run. ``checkpoints``: the directory of the jobs' checkpoints, None for that of the target.

    ``own_checkpoints``: a script sets that directory itself, so the command does not. ``image``: of containers.
    ``memory``: for all processes, as Kubernetes writes it. ``ends``: all jobs end, because what they read has an end.
    ``wheels``: the file names of wheels to install in place of the version on a package index.
    """

    name: str
    scripts: tuple[ScriptFile, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    checkpoints: str | None = None
    own_checkpoints: bool = False
    image: str = ""
    master: str | None = None
    memory: str = "4Gi"
    metrics_port: int = 9464
    ends: bool = False
    wheels: tuple[str, ...] = ()

    @property
    def folders(self) -> tuple[TableFolder, ...]:
        """The folders and files of the scripts' tables, as the scripts have them; not those in object stores."""
        statements = [s for script in self.scripts for s in parse_script(script.text)]
        written = {name for s in statements for name in _targets(s)}
        tables = [s for s in statements if isinstance(s, CreateTable)]
        return tuple(
            TableFolder(table.name.parts[-1], option.value, table.name.parts[-1].casefold() in written)
            for table in tables
            for option in table.options
            if option.key == "path" and not is_remote(option.value) and not REFERENCE.search(option.value)
        )

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the environment variables that scripts and settings refer to, sorted."""
        texts = [*(script.text for script in self.scripts), *self.settings.values()]
        return tuple(sorted({name for text in texts for name in REFERENCE.findall(text)}))

    @property
    def requirements(self) -> str:
        """What pip is to install, as arguments of its command, with the extras that connectors and settings need.

        Of an index the distribution with the modules is named, too. ``sqlstream`` depends on it in any case, and an
        index that has another project under the name ``sqlstream``, as pypi.org, lacks it: pip then installs nothing.
        """
        connectors = {name for script in self.scripts for name in _CONNECTOR.findall(script.text)}
        extras = {_EXTRAS[name] for name in connectors if name in _EXTRAS}
        texts = "\n".join([*(script.text for script in self.scripts), *self.settings])
        extras |= {"otel"} if ".otlp.url" in texts else set()
        named = f"[{','.join(sorted(extras))}]" if extras else ""
        indexed = (f"sqlstream{named}=={__version__}", f"sqlstream-planner=={__version__}")
        files = (f"./{wheel}{named if wheel.startswith('sqlstream-') else ''}" for wheel in self.wheels)
        return " ".join(map(shlex.quote, files if self.wheels else indexed))

    @property
    def copied_wheels(self) -> str:
        """The line of a Dockerfile that copies the wheels; empty where there are none."""
        return f"COPY {' '.join(self.wheels)} ./\n" if self.wheels else ""

    def arguments(self, checkpoints: str, more: Mapping[str, str] | None = None) -> list[str]:
        """The arguments of ``sqlstream`` that run the scripts. ``more``: settings of the target."""
        own = {} if self.own_checkpoints else {CHECKPOINTS: checkpoints}
        settings = {**own, **(more or {}), **self.settings}
        return [
            "run",
            *(script.name for script in self.scripts),
            *(argument for key, value in settings.items() for argument in ("--set", f"{key}={value}")),
            *([] if self.master is None else ["--master", self.master]),
            "--metrics-port", str(self.metrics_port), "--log-format", "json", "--no-progress", "--savepoint-on-term",
        ]  # fmt: skip


def starts_jobs(script: ScriptFile) -> bool:
    """Whether a script has an INSERT or a statement set, and not only tables and views."""
    return any(isinstance(statement, Insert | StatementSet) for statement in parse_script(script.text))


def only_defines(script: ScriptFile) -> bool:
    """Whether nothing of a script runs: it has definitions and settings alone."""
    definitions = (CreateCatalog, CreateDatabase, CreateFunction, CreateTable, CreateView, Set, Use)
    statements = parse_script(script.text)
    return all(isinstance(s, definitions) and not (isinstance(s, CreateTable) and s.query) for s in statements)


def is_remote(directory: str) -> bool:
    """True for a directory that is not of the machine, such as ``s3a://bucket/jobs``."""
    return "://" in directory and not directory.startswith("file:")


def checkpoints_of_scripts(scripts: Sequence[ScriptFile]) -> str | None:
    """The directory of checkpoints that the last SET of the scripts gives; None where none does."""
    values = [
        s.value for script in scripts for s in parse_script(script.text) if isinstance(s, Set) if s.key == CHECKPOINTS
    ]
    return values[-1] if values else None


def require_no_secrets(deployment: Deployment) -> None:
    """Raises ConnectorError SS478 where a script or a setting has the value of a secret, which the files would show."""
    for place in _secret_places(deployment):
        raise ConnectorError(
            SECRET_VALUE,
            f"{place} holds the value of a secret",
            hint="Write ${NAME} in its place: a variable of the environment, of which the files have the name alone.",
        )


def _secret_places(deployment: Deployment) -> Iterator[str]:
    for script in deployment.scripts:
        lines = zip(script.text.splitlines(), shown_script(script.text).splitlines(), strict=False)
        numbers = (number for number, (written, shown) in enumerate(lines, 1) if written != shown)
        yield from (f'line {number} of "{script.name}"' for number in numbers)
    for key, value in deployment.settings.items():
        if shown_value(key, value) != value:
            yield f'setting "{key}"'
