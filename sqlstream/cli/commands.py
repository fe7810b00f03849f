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


# --- help -----------------------------------------------------------------------------------------------------

_RUN = """\b
Statements run one after the other; files share one session. A query prints its rows as they come.
INSERT from bounded tables is waited for; other INSERTs run side by side until Ctrl-C.
Standard output has the results and nothing else. Standard error shows rows, rates and the watermark if it is
a terminal; elsewhere it gets what each bounded INSERT has written, with --progress a line every two seconds,
with --no-progress neither. Exit codes: 0 success, 1 the SQL is wrong, 2 the command is wrong, 3 a job failed,
130 interrupted.

\b
Examples:
  sqlstream run tables.sql query.sql --param data=/tmp/data
  sqlstream run tables.sql -e "SELECT * FROM t" --output jsonl | head
  sqlstream run job.sql --set execution.checkpointing.dir=/var/lib/checkpoints
  sqlstream run job.sql --metrics-port 9464 & curl localhost:9464/metrics
  sqlstream run job.sql --log-format json 2>> job.log
"""

_SERVE = """\b
The scripts define tables and materialized views; each view has a job that goes on until Ctrl-C or SIGTERM, in one
Spark. A job that fails starts again from its checkpoint, at once and then after longer and longer times
(restart-strategy.type, exponential-delay here). After kill -9 the same command goes on from the checkpoints: no row
is lost or doubled. INSERT runs, too; a query does not.
Standard output has two lines, the address of the PostgreSQL server for psql and BI tools and that of the page, which
has the token that opens it; with --token it has not.
Without sqlstream.views.url the server is one of this machine that is started, on a port of 127.0.0.1.
Exit codes: 0 stopped by SIGTERM, 130 by Ctrl-C, 1 the SQL is wrong, 2 the command is wrong, 3 Spark or
the server did not start.

\b
Examples:
  sqlstream serve tables.sql views.sql
  sqlstream serve views.sql --port 8080 --set sqlstream.views.dir=/var/lib/views
  sqlstream serve views.sql --set 'sqlstream.views.url=postgresql://etl:${PASSWORD}@db:5432/shop'
"""

_CHECK = """\b
Several files are checked as one script: tables of the first are known in the second.

\b
Examples:
  sqlstream check query.sql
  sqlstream check tables.sql query.sql --param data=/tmp/data
  sqlstream check --from flink job.sql
"""

_EXPLAIN = """\b
Definitions of the script are carried out in a scratch session, nothing runs. The stage spark asks Spark.

\b
Examples:
  sqlstream explain tables.sql query.sql
  sqlstream explain tables.sql -e "SELECT * FROM t" --format mermaid
  sqlstream explain tables.sql query.sql --stage trace
  sqlstream explain tables.sql query.sql --format html > plan.html
"""

_FORMAT = """\b
Examples:
  sqlstream format query.sql
  sqlstream format --write *.sql
  sqlstream format --check *.sql     exit code 1 where a file would change
"""

_SHELL = """\b
Spark starts while you type. Ctrl-C cancels the running query, Ctrl-D leaves, \\? shows the shell's commands.
Ctrl-Z sends it to the background. Long results go through $PAGER.
A background job that fails is told of above the prompt. With piped input, statements run one after the other,
also after a wrong one; the exit code then is 1. ~/.config/sqlstream/shellrc runs before the first prompt; keys are
those of Emacs, or of vi where ~/.inputrc says "set editing-mode vi".

\b
Examples:
  sqlstream shell
  echo "SHOW CONNECTORS;" | sqlstream shell
  sqlstream shell -f tables.sql -c "SELECT * FROM clicks LIMIT 10" --format csv
  sqlstream shell -f tables.sql -v day=2026-11-25 -i
"""

_JOBS = """\b
DIR is what jobs have as execution.checkpointing.dir; each keeps a record there, which is read without Spark.
Without --dir it is about the jobs that the shell has submitted as processes of their own.
What is asked of a job, its own process does. A JOB is a name or an id. LOST is a job whose process is gone.
Exit codes: 0 success, 1 the job cannot do what is asked, 2 there is no such job, 3 it has not answered or has failed.

\b
Examples:
  sqlstream jobs list
  sqlstream jobs list --dir /var/lib/checkpoints
  sqlstream jobs stop insert_into_totals --dir /var/lib/checkpoints --savepoint
  sqlstream jobs checkpoints insert_into_totals --dir /var/lib/checkpoints --output jsonl
"""

_SHOW = """\b
With --expect the exit code is 0 in such a state, 1 in another one that may come to it, 2 where there is no such job,
and 3 where it is FAILED, LOST or DAMAGED.

\b
Examples:
  sqlstream jobs show insert_into_totals --dir /var/lib/checkpoints --expect RUNNING --expect FINISHED
  sqlstream jobs show insert_into_totals --dir /var/lib/checkpoints
  sqlstream jobs show insert_into_totals --dir /var/lib/checkpoints --record | jq .description.plan
"""

_STOP = """\b
A job that does not run any more is left as it is. With --savepoint or --drain it must run.

\b
Examples:
  sqlstream jobs stop insert_into_totals --dir /var/lib/checkpoints
  sqlstream jobs stop insert_into_totals --dir /var/lib/checkpoints --savepoint --drain
  sqlstream jobs stop --all --dir /var/lib/checkpoints --savepoint
  sqlstream jobs stop insert_into_totals --dir /var/lib/checkpoints --savepoint-path /var/lib/savepoints/monday
"""

_PLAN = """\b
The page shows the plan as sqlstream explain --format html does, and beside each operator what the job has counted:
rows read of each table, rows that exchanges brought to operators with state, their results, late rows and state, rows
written. Filters and projections have no counts of their own, Spark runs them together with what is around them.
Counts are of the time since the job was started and change with each micro-batch; rates are those of the
last ten seconds. The page is on 127.0.0.1 alone and refreshes itself until Ctrl-C; the job goes on. The address that is
printed has the token that opens it, unless it is given.

\b
Examples:
  sqlstream jobs plan insert_into_totals --dir /var/lib/checkpoints
  sqlstream jobs plan insert_into_totals --dir /var/lib/checkpoints --to plan.html
"""

_SERVE_JOBS = """\b
The pages show each job with its plan and live counts, its metrics of the last hour as charts, checkpoints, savepoints,
failures with hints, and the newest rows of its tables for bad and late rows; they ask jobs for a checkpoint or a
savepoint, and stop and restart them. All of that is behind a token. Without --token one is made, and the address that
is printed has it. The command reads the records of the jobs and starts no Spark; the last hour begins with it.
--start-with is run by the shell to restart a job, with its name in SQLSTREAM_JOB and its folder in
SQLSTREAM_CHECKPOINT; it may start the job itself and go on, or tell somebody else to. A job that runs is stopped first.
Another --host than one of this machine opens the pages to others, without encryption: put a proxy with TLS before it.
With --editor whoever has the token may also run SQL with the rights of this command, of which INSERT and other jobs are
refused: Spark starts with the first query, completions are those of sqlstream lsp, rows appear as they come. Each run
has its own definitions beside those of FILE, and is stopped when its page has been closed for three minutes.

\b
Examples:
  sqlstream jobs serve --dir /var/lib/checkpoints
  sqlstream jobs serve --dir /var/lib/checkpoints --editor tables.sql
  sqlstream jobs serve --dir /var/lib/checkpoints --start-with 'systemctl start "shop@$SQLSTREAM_JOB"'
  SQLSTREAM_JOBS_TOKEN=$(cat token) sqlstream jobs serve --dir /var/lib/checkpoints --host 0.0.0.0
"""

_DEPLOY = """\b
Writes the files that run scripts for good, with their checkpoints, /health, /ready and /metrics, restarts after a
failure, and a savepoint when they are stopped. Scripts name secrets as ${NAME}; the files name the variables and never
have their values, and a script with the value of a secret is refused (SS478).
systemd: a unit. compose: an image and a service. kubernetes: the image, and a Deployment with what it needs.
helm: the same as a chart. spark-operator: a SparkApplication of Kubeflow's operator, with executors in pods.
spark-submit: a program for a cluster of Spark, and scripts that start and stop it.
Scripts are checked first. With --dry-run the files are printed, and none is written.

\b
Examples:
  sqlstream deploy job.sql --target systemd --to /tmp/job
  sqlstream deploy tables.sql job.sql --target kubernetes --image registry/shop:1 --dir s3a://bucket/jobs
  sqlstream deploy job.sql --target compose --set parallelism.default=4 --dry-run
  sqlstream deploy job.sql --target spark-submit --master spark://host:7077 --dir hdfs://name/jobs
"""

_UPGRADE = """\b
The running jobs are found by their names below the directory of checkpoints. Each part of their plans is listed
with what becomes of its state. A job whose state does not carry over is refused before anything stops, unless
--discard-state is given. Each job stops with a savepoint, and the new scripts start in a process of their own
that goes on when this command ends (sqlstream jobs lists it), or by --start-with. It has the files and options that
are given here, so give those of sqlstream run again, the files of tables and --metrics-port among them. Where a
job fails before its first epochs are complete, the former scripts of --previous start again.
Exit codes: 0 upgraded, 1 the SQL is wrong, 2 the command is wrong, 3 the state does not carry over, or the new
jobs failed.

\b
Examples:
  sqlstream upgrade job.sql --dir /var/lib/jobs --dry-run
  sqlstream upgrade job.sql --dir /var/lib/jobs --previous old/job.sql --epochs 5
  sqlstream upgrade job.sql --dir /var/lib/jobs --start-with "systemctl start shop"
"""

_METRICS = """\b
A process that runs jobs shows their metrics with --metrics-port N or SET 'metrics.prometheus.port' = 'N', and sends
them with SET 'metrics.otlp.url' = '…'. What is printed here is made from the list of metrics, and needs no job.

\b
Examples:
  sqlstream metrics list
  sqlstream metrics dashboard > sqlstream.json      import it into Grafana
  sqlstream metrics alerts > sqlstream.rules.yml    rule_files of prometheus.yml
"""

_TEST = """\b
Tests are blocks of golden files (*.golden) and EXECUTE UNIT TEST in SQL files (*.sql), below each
PATH, by default the current directory; --cases adds case files (*.json). All run in one process on
one Spark, which starts with the first of them that needs it.

\b
Prints one line a test, PASS or FAIL, below the latter what is different; of case files also
REFUSED with code and message. Then totals. Exit code 1 where a test fails.

\b
Examples:
  sqlstream test
  sqlstream test tests/revenue.golden -k "late and not session" -x
  sqlstream test tests --bless
  sqlstream test tests -n 4 --junit report.xml
  sqlstream test tests --watch
  sqlstream test --cases cases --json report.json --select windows/
"""

_TOPICS = """\b
BROKERS is host:port, with commas. Without a TOPIC all are listed but those of Kafka itself. Offsets are what
readers of committed messages see: begin is that of the first message, end follows the last one. With --group
also the offset that the group has committed, and how many messages are behind it. With --messages the last messages
themselves: time, key, headers, value. What is no text is hexadecimal, in JSON Base64.

\b
Examples:
  sqlstream topics localhost:9092
  sqlstream topics localhost:9092 orders --messages 5 --output vertical
  sqlstream topics localhost:9092 clicks orders --group reports --output jsonl
  sqlstream topics kafka:9093 --property security.protocol=SSL --property ssl.truststore.location=ca.pem
"""

_INFER = """\b
SOURCE is a file, a directory or a pattern of csv, json, parquet, orc, avro or arrow, or a topic of Kafka. The statement
has columns with types, the event time with its watermark, and the options that read the source; what is a guess is
said in comments. Of text the first records are looked at, of a topic the last messages.

\b
Examples:
  sqlstream infer clicks.csv > tables.sql
  sqlstream infer 'data/*.json' --name clicks --rows 100000
  sqlstream infer kafka://localhost:9092/orders
  sqlstream infer kafka://localhost:9092/orders --registry http://localhost:8081
"""

_LSP = """\b
The files are definitions that all documents know; the folder's sqlstream.toml holds, too.

\b
Examples:
  sqlstream lsp
  sqlstream lsp tables.sql
"""

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
            epilog=_SHOW,
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
            epilog=_PLAN,
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
            epilog=_SERVE_JOBS,
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
            epilog=_STOP,
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
    epilog=_JOBS,
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
    epilog=_METRICS,
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
        epilog=_RUN,
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
        epilog=_SERVE,
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
        epilog=_CHECK,
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
        epilog=_EXPLAIN,
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
        epilog=_FORMAT,
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
        epilog=_SHELL,
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
        epilog=_INFER,
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
        epilog=_TOPICS,
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
        epilog=_TEST,
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
        epilog=_DEPLOY,
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
        epilog=_UPGRADE,
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
        epilog=_LSP,
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
