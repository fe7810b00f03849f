"""The commands: their options and help. What a command does is in a module that is imported when it runs.

Help and mistakes in options are therefore fast.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from sqlstream.cli import help_texts
from sqlstream.cli.options import (
    FORMATS,
    env_file_option,
    observing_options,
    project_option,
    script_options,
    session_options,
    token_option,
)


def _command(
    name: str, module: str, function: str, doc: str, *options: Callable[..., Any], epilog: str | None = None
) -> click.Command:
    """A command that calls a function of a module, which is imported then, with its options as arguments."""

    def run(**given: Any) -> Any:
        return getattr(import_module(module), function)(**given)

    callback: Callable[..., Any] = run
    for option in reversed(options):
        callback = option(callback)
    return click.command(name, help=doc, epilog=epilog)(callback)


_PLAN_FORMATS = ("text", "json", "mermaid", "html")
_STAGES = ("logical", "optimized", "physical", "spark", "trace", "changelog_mode", "advice")

_TARGETS = ("systemd", "compose", "kubernetes", "helm", "spark-operator", "spark-submit")
_PARAM = "Put VALUE for ${NAME}, and a literal of it for :NAME."

_STATUSES = ("STARTING", "RUNNING", "RESTARTING", "FINISHED", "STOPPED", "FAILED", "LOST", "DAMAGED")

RESTARTS = ("none", "third", "all")

# --- options of jobs ------------------------------------------------------------------------------------------


class _Seconds(click.FloatRange):
    """A number of seconds; NaN is refused, because no time is later than it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds: float = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value} is no number of seconds", param, ctx)
        return seconds


_WAIT_SECONDS = 600.0

_directory = click.option("--dir", "-d", "directory", metavar="DIR", help="Where jobs keep their checkpoints.")
_output = click.option(
    "--output", "-o", type=click.Choice(FORMATS), default="table", show_default=True, help="How rows are printed."
)
_timeout = click.option(
    "--timeout", type=_Seconds(0), default=_WAIT_SECONDS, show_default=True, help="Seconds to wait for the answer."
)

# --- commands -------------------------------------------------------------------------------------------------


_JOBS_COMMAND = click.Group(
    "jobs",
    [
        _command(
            "list", "sqlstream.cli.jobs", "list_jobs", "List jobs, oldest first.", _directory, _output, epilog=None
        ),
        _command(
            "show",
            "sqlstream.cli.jobs",
            "show_job",
            "Show what a job is and has done.",
            click.argument("job"),
            _directory,
            _output,
            click.option("--record", is_flag=True, help="The whole record as JSON, with the plan."),
            click.option(
                "--expect",
                "expected",
                multiple=True,
                type=click.Choice(_STATUSES, case_sensitive=False),
                help="Exit with 0 only if the job is in this state, or one of those of several --expect.",
            ),
            epilog=help_texts.SHOW,
        ),
        _command(
            "plan",
            "sqlstream.cli.jobs",
            "show_plan",
            "Show the plan of a job with live rates, as a page. Prints its address.",
            click.argument("job"),
            _directory,
            click.option(
                "--port", type=click.IntRange(0, 65535), default=8322, show_default=True, help="Of the page; 0: any."
            ),
            token_option("SQLSTREAM_JOBS_TOKEN"),
            click.option("--to", "path", metavar="FILE", help="Write the page as it is now into FILE, and end."),
            epilog=help_texts.PLAN,
        ),
        _command(
            "serve",
            "sqlstream.cli.jobs",
            "serve_jobs",
            "Show all jobs on pages, with charts of their last hour, and ask them to stop or for savepoints.",
            _directory,
            click.option(
                "--port", type=click.IntRange(0, 65535), default=8323, show_default=True, help="Of the page; 0: any."
            ),
            click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on."),
            token_option("SQLSTREAM_JOBS_TOKEN"),
            click.option("--start-with", metavar="COMMAND", help="A shell command that starts a job again."),
            click.option("--editor", is_flag=True, help="With an SQL editor that knows what FILE defines."),
            script_options,
            session_options,
            epilog=help_texts.SERVE_JOBS,
        ),
        _command(
            "stop",
            "sqlstream.cli.jobs",
            "stop_job",
            """\
Stop a job. Prints where its savepoint is, if there is one.

It stops after its last complete micro-batch.
""",
            click.argument("job", required=False),
            _directory,
            click.option("--all", "every", is_flag=True, help="All jobs that run, in place of JOB."),
            click.option("--savepoint", is_flag=True, help="Take a savepoint, in the default place."),
            click.option("--savepoint-path", metavar="PATH", help="Take a savepoint at PATH."),
            click.option("--drain", is_flag=True, help="Take the input as ended: all windows and timers fire."),
            _timeout,
            epilog=help_texts.STOP,
        ),
        _command(
            "remove",
            "sqlstream.cli.jobs",
            "remove_job",
            """\
Remove what a submitted job has left that has ended.

That is its script and its log, and its checkpoint where the job was given no directory for it.
""",
            click.argument("job"),
        ),
        _command(
            "checkpoint",
            "sqlstream.cli.jobs",
            "checkpoint_job",
            "Complete an epoch now. Prints its number, or nothing where no row has come yet.",
            click.argument("job"),
            _directory,
            _timeout,
        ),
        _command(
            "savepoint",
            "sqlstream.cli.jobs",
            "savepoint_job",
            "Take a savepoint. Prints where it is; the job goes on.",
            click.argument("job"),
            click.argument("path", required=False),
            _directory,
            _timeout,
        ),
        _command(
            "checkpoints",
            "sqlstream.cli.jobs",
            "list_checkpoints",
            "List the epochs of jobs, newest first.",
            click.argument("job", required=False),
            _directory,
            _output,
        ),
    ],
    help="List, describe, stop and checkpoint jobs that other processes run.",
    epilog=help_texts.JOBS,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_METRICS_COMMAND = click.Group(
    "metrics",
    [
        _command(
            "list", "sqlstream.cli.metrics", "list_metrics", "List the metrics, with units and Flink's names.", _output
        ),
        _command("dashboard", "sqlstream.cli.metrics", "print_dashboard", "Print a dashboard of Grafana, as JSON."),
        _command("alerts", "sqlstream.cli.metrics", "print_alerts", "Print rules for alerts of Prometheus, as YAML."),
    ],
    help="List the metrics of jobs; print a dashboard and alerts made from them.",
    epilog=help_texts.METRICS,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_ALL = (
    _command(
        "run",
        "sqlstream.cli.execution",
        "run_command",
        'Run scripts: files first, then -e; "-" is standard input.',
        script_options,
        session_options,
        observing_options,
        click.option("--output", "-o", type=click.Choice(FORMATS), default="table", help="How rows are printed."),
        click.option(
            "--progress/--no-progress", default=None, help="What is going on, on stderr [default: on a terminal]."
        ),
        click.option(
            "--savepoint-on-term", is_flag=True, help="SIGTERM stops jobs with a savepoint each; exit code 0."
        ),
        epilog=help_texts.RUN,
    ),
    _command(
        "serve",
        "sqlstream.cli.serve",
        "serve_command",
        "Keep the materialized views of scripts, for psql and BI tools to read.",
        script_options,
        session_options,
        observing_options,
        click.option(
            "--port", type=click.IntRange(0, 65535), default=8321, show_default=True, help="Of the page; 0: any."
        ),
        click.option("--page/--no-page", default=True, help="Show the state of the views on a page of 127.0.0.1."),
        token_option("SQLSTREAM_SERVE_TOKEN"),
        epilog=help_texts.SERVE,
    ),
    _command(
        "check",
        "sqlstream.cli.check",
        "check_command",
        "Find all mistakes of scripts at once, without starting Spark. Warnings leave the exit code 0.",
        script_options,
        click.option(
            "--from", "origin", type=click.Choice(("flink",)), help="Also say what a script of Flink's does otherwise."
        ),
        epilog=help_texts.CHECK,
    ),
    _command(
        "explain",
        "sqlstream.cli.check",
        "explain_command",
        "Show the plans of the queries and INSERTs of scripts.",
        script_options,
        session_options,
        click.option(
            "--format",
            "style",
            type=click.Choice(_PLAN_FORMATS),
            default="text",
            show_default=True,
            help="How the plan is written.",
        ),
        click.option("--stage", type=click.Choice(_STAGES), default="optimized", show_default=True, help="Which plan."),
        epilog=help_texts.EXPLAIN,
    ),
    _command(
        "format",
        "sqlstream.cli.check",
        "format_command",
        """\
Print SQL in the standard layout.

Comments stay beside their words, and ${name} as it is.
""",
        click.option("--check", is_flag=True, help="Change nothing; exit with 1 where a file is not formatted."),
        click.option("--write", is_flag=True, help="Rewrite the files in place."),
        click.option("--execute", "-e", "statements", multiple=True, metavar="SQL", help="SQL instead of a file."),
        click.argument("files", nargs=-1, metavar="[FILE]..."),
        epilog=help_texts.FORMAT,
    ),
    _command(
        "shell",
        "sqlstream.shell.early_prompt",
        "shell_command",
        "Type SQL and see results as they come.",
        session_options,
        env_file_option,
        project_option,
        click.option("--command", "-c", "commands", multiple=True, metavar="SQL", help="Run this, and leave."),
        click.option(
            "--file", "-f", "files", multiple=True, metavar="FILE", help="Run a file, and leave; before those of -c."
        ),
        click.option(
            "--param",
            "-p",
            "-v",
            "parameters",
            multiple=True,
            metavar="NAME=VALUE",
            help="Put VALUE for ${NAME} in all text.",
        ),
        click.option("--interactive", "-i", "stays", is_flag=True, help="Stay behind -f and -c."),
        click.option("--format", "style", type=click.Choice(FORMATS), default="table", help="How rows are written."),
        epilog=help_texts.SHELL,
    ),
    _JOBS_COMMAND,
    _METRICS_COMMAND,
    _command(
        "infer",
        "sqlstream.cli.infer",
        "infer_command",
        "Propose a CREATE TABLE from what files or a topic of Kafka hold.",
        click.argument("source"),
        click.option("--name", metavar="NAME", help="Of the table; else that of the file or topic."),
        click.option(
            "--format",
            "-f",
            type=click.Choice(("csv", "json", "parquet", "orc", "avro", "arrow")),
            help="What the source holds; else as the names of files, or the messages, say.",
        ),
        click.option("--rows", type=click.IntRange(1), default=1000, show_default=True, help="How many are looked at."),
        click.option("--registry", metavar="URL", help="The schema registry of the messages."),
        click.option(
            "--property",
            "properties",
            multiple=True,
            metavar="NAME=VALUE",
            help="A property of Kafka's client, as the option properties.NAME of a table.",
        ),
        epilog=help_texts.INFER,
    ),
    _command(
        "topics",
        "sqlstream.cli.topics",
        "topics_command",
        "List the topics of Kafka: partitions, offsets, and the lag of a consumer group.",
        click.argument("brokers"),
        click.argument("topics", nargs=-1, metavar="[TOPIC]..."),
        click.option("--group", "-g", metavar="NAME", help="A consumer group, for its offsets and lag."),
        click.option(
            "--messages",
            "-m",
            type=click.IntRange(1),
            metavar="COUNT",
            help="Print the last COUNT messages of each partition instead.",
        ),
        click.option(
            "--property",
            "properties",
            multiple=True,
            metavar="NAME=VALUE",
            help="A property of the client, as the option properties.NAME of a table.",
        ),
        _output,
        epilog=help_texts.TOPICS,
    ),
    _command(
        "test",
        "sqlstream.cli.test",
        "test_command",
        "Run tests: inputs, clock steps and expected outputs of queries.",
        click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(exists=True, path_type=Path)),
        click.option(
            "--cases",
            metavar="DIR",
            type=click.Path(exists=True, path_type=Path),
            help="Run the case files (*.json) below DIR.",
        ),
        click.option(
            "-k", "words", metavar="WORDS", help="Only tests whose file, name or title has the words: a and not b."
        ),
        click.option("--select", metavar="TEXT", help="Only the files whose path contains TEXT."),
        click.option("-x", "--exitfirst", "until_failure", is_flag=True, help="Stop at the first test that fails."),
        click.option("--bless", is_flag=True, help="Write what comes out into golden files; read the diff afterwards."),
        click.option("--watch", is_flag=True, help="Stay, and run tests again when their files change."),
        click.option("-n", "processes", metavar="N", type=click.IntRange(1), default=1, help="Run in N processes."),
        click.option(
            "--restarts",
            type=click.Choice(RESTARTS),
            default="none",
            show_default=True,
            help="Which stream blocks also run with restarts between their steps.",
        ),
        click.option(
            "--streaming", is_flag=True, help="Run tests as streaming queries of Spark, as in production: slower."
        ),
        click.option(
            "--junit", metavar="FILE", type=click.Path(path_type=Path), help="Write the results as JUnit XML."
        ),
        click.option(
            "--json", "report", metavar="FILE", type=click.Path(path_type=Path), help="Write the results to FILE."
        ),
        click.option("--set", "-s", "settings", multiple=True, metavar="KEY=VALUE", help="A setting, as with SET."),
        project_option,
        epilog=help_texts.TEST,
    ),
    _command(
        "deploy",
        "sqlstream.cli.deploy",
        "deploy_command",
        "Write what runs scripts for good: with systemd, Docker Compose, Kubernetes or spark-submit.",
        click.option("--target", type=click.Choice(_TARGETS), required=True, help="What is to run them."),
        click.option("--to", "folder", metavar="FOLDER", help="Where the files are written [default: deploy-NAME]."),
        click.option("--name", help="Of the deployment [default: that of the first file with an INSERT]."),
        click.option("--dir", "-d", "directory", metavar="DIR", help="Where the jobs keep their checkpoints."),
        click.option("--image", help="Of containers [default: NAME:latest]."),
        click.option("--master", metavar="URL", help="Where Spark runs [default: in the process itself]."),
        click.option("--memory", default="4Gi", show_default=True, help="For all processes, as Kubernetes writes it."),
        click.option(
            "--metrics-port", type=click.IntRange(1, 65535), default=9464, show_default=True, help="Of /metrics."
        ),
        click.option("--set", "-s", "settings", multiple=True, metavar="KEY=VALUE", help="A setting, as with SET."),
        click.option(
            "--wheel",
            "wheels",
            metavar="FILE",
            multiple=True,
            help="Installed in place of the version on a package index; of a release give both.",
        ),
        click.option("--dry-run", is_flag=True, help="Check, print the files, and write none."),
        click.option("--param", "-p", "parameters", multiple=True, metavar="NAME=VALUE", help=_PARAM),
        click.argument("files", nargs=-1, required=True, metavar="FILE..."),
        project_option,
        epilog=help_texts.DEPLOY,
    ),
    _command(
        "upgrade",
        "sqlstream.cli.upgrade",
        "upgrade_command",
        "Exchange running jobs for those of changed scripts, with their state, and back where the first epochs fail.",
        script_options,
        session_options,
        observing_options,
        click.option("--dir", "-d", "directory", metavar="DIR", help="Where the jobs keep their checkpoints."),
        click.option("--previous", multiple=True, metavar="FILE", help="What runs now, to start again on failure."),
        click.option(
            "--epochs", type=click.IntRange(0), default=3, show_default=True, help="How many must succeed first."
        ),
        click.option(
            "--patience",
            type=_Seconds(0),
            default=300.0,
            show_default=True,
            help="Seconds to wait for them; a job that works that long without a failure is trusted.",
        ),
        click.option(
            "--timeout",
            type=_Seconds(0),
            default=_WAIT_SECONDS,
            show_default=True,
            help="Seconds that a running job may take to stop, and a new one to start.",
        ),
        click.option("--discard-state", is_flag=True, help="Start without state where it does not carry over."),
        click.option("--start-with", metavar="COMMAND", help="A shell command that starts the new scripts."),
        click.option("--back-with", metavar="COMMAND", help="A shell command that starts the former scripts again."),
        click.option("--dry-run", is_flag=True, help="Compare, and change nothing."),
        epilog=help_texts.UPGRADE,
    ),
    _command(
        "lsp",
        "sqlstream.cli.check",
        "lsp_command",
        """\
Serve editors: the language server protocol on standard input and output.

Diagnostics, hover, completion, definitions, references, renaming, formatting and fixes. Spark is not started.
""",
        project_option,
        click.argument("files", nargs=-1, metavar="[FILE]..."),
        epilog=help_texts.LSP,
    ),
    _command(
        "version",
        "sqlstream.cli.terminal",
        "print_versions",
        "Print the versions of sqlstream and of what it stands on.",
    ),
)

COMMANDS = {str(command.name): command for command in _ALL}
"""The commands by name, in the order of ``--help``."""
