"""The files of deployments: what they run, where checkpoints and secrets are, and what is refused."""

from __future__ import annotations

import ast
import configparser
import json
import os
import shlex
import stat
import subprocess
from pathlib import Path

import click
import pytest
import yaml

from sqlstream.cli import commands, run

SCRIPT = """CREATE TABLE bids (k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'datagen', 'rows-per-second' = '10');
CREATE TABLE totals (k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'postgres', 'url' = 'postgresql://db/shop', 'username' = 'etl', 'table-name' = 'totals',
      'password' = '${DB_PASSWORD}');
INSERT INTO totals SELECT k, COUNT(*) FROM bids GROUP BY k;
"""
TARGETS = ("systemd", "compose", "kubernetes", "spark-submit")
DIR = ("--dir", "s3a://bucket/jobs")


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DB_PASSWORD", "hunter2-and-more")
    (tmp_path / "My Job.sql").write_text("SELECT 1")
    (tmp_path / "job.sql").write_text(SCRIPT)


def deployed(target, *options):
    """The files of a deployment of ``job.sql``, by their names."""
    assert run(["deploy", "job.sql", "--target", target, "--to", "out", *options]) == 0
    return {path.name: path.read_text() for path in Path("out").iterdir()}


def command_of(target, files):
    """The arguments of sqlstream in the files."""
    match target:
        case "systemd":
            unit = configparser.RawConfigParser(strict=False)
            unit.optionxform = str  # type: ignore[method-assign,assignment]
            unit.read_string(files["job.service"])
            return shlex.split(unit["Service"]["ExecStart"].replace("%%", "%").replace("$$", "$"))[1:]
        case "spark-submit":
            (assigned,) = [n for n in ast.parse(files["job.py"]).body if isinstance(n, ast.Assign)]
            return ast.literal_eval(assigned.value)
        case "compose":
            (line,) = [line for line in files["Dockerfile"].splitlines() if line.startswith("CMD ")]
            return json.loads(line.removeprefix("CMD "))[1:]
    (pod,) = [d["spec"]["template"]["spec"] for d in yaml.safe_load_all(files["job.yaml"]) if d["kind"] == "Deployment"]
    return pod["containers"][0]["args"][1:]


@pytest.mark.parametrize("target", TARGETS)
def test_the_command_is_one_that_sqlstream_takes(target, capsys):
    arguments = command_of(target, deployed(target, *DIR, "--set", "pipeline.name=a 100% $name"))
    assert arguments[:2] == ["run", "job.sql"]
    assert "execution.checkpointing.dir=s3a://bucket/jobs" in arguments
    assert "pipeline.name=a 100% $name" in arguments
    assert arguments[-6:] == ["--metrics-port", "9464", "--log-format", "json", "--no-progress", "--savepoint-on-term"]
    command = commands.commands["run"]
    context = command.make_context("run", arguments[1:], parent=click.Context(commands, **commands.context_settings))
    assert context.params["savepoint_on_term"]
    assert "out/job.sql" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("target", TARGETS)
def test_files_name_variables_and_never_have_their_values(target):
    files = deployed(target, *DIR)
    assert "DB_PASSWORD" in "".join(text for name, text in files.items() if name != "job.sql")
    assert "hunter2" not in "".join(files.values())
    if target != "kubernetes":
        assert files["secrets.env"].splitlines()[1:] == ["DB_PASSWORD="]
        assert stat.S_IMODE(Path("out/secrets.env").stat().st_mode) == 0o600


@pytest.mark.parametrize("target", TARGETS)
def test_values_of_secrets_are_refused(target, tmp_path, capsys):
    (tmp_path / "job.sql").write_text(SCRIPT.replace("${DB_PASSWORD}", "in-the-clear"))
    assert run(["deploy", "job.sql", "--target", target, *DIR]) == 1
    error = capsys.readouterr().err
    assert error.startswith('SS478: line 5 of "job.sql" holds the value of a secret\nHINT: Write ${NAME} in its place')
    assert "in-the-clear" not in error
    (tmp_path / "job.sql").write_text(SCRIPT)
    assert run(["deploy", "job.sql", "--target", target, *DIR, "--set", "metrics.prometheus.token=abc"]) == 1
    assert capsys.readouterr().err.startswith('SS478: setting "metrics.prometheus.token" holds the value of a secret')


@pytest.mark.parametrize("target", TARGETS)
def test_a_dry_run_prints_the_files_and_writes_none(target, tmp_path, capsys):
    before = sorted(tmp_path.iterdir())
    assert run(["deploy", "job.sql", "--target", target, *DIR, "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert sorted(tmp_path.iterdir()) == before
    deployed(target, *DIR)
    assert printed == "".join(f"--- {name}\n{Path('out', name).read_text()}" for name in _names(printed))


def _names(printed):
    return [line.removeprefix("--- ") for line in printed.splitlines() if line.startswith("--- ")]


def test_variables_need_no_value_where_the_files_are_written(tmp_path):
    (tmp_path / "job.sql").write_text(f"SET 'metrics.prometheus.token' = '${{METRICS_TOKEN}}';\n{SCRIPT}")
    files = deployed("systemd", "--set", "lineage.openlineage.api-key=${KEY}")
    assert files["secrets.env"].splitlines()[1:] == ["DB_PASSWORD=", "KEY=", "METRICS_TOKEN="]
    assert "METRICS_TOKEN" not in os.environ


def test_a_unit_stops_with_time_for_a_savepoint_and_keeps_its_checkpoints():
    unit = deployed("systemd")["job.service"]
    assert "execution.checkpointing.dir=/var/lib/sqlstream/job/checkpoints" in unit
    assert "StateDirectory=sqlstream/job" in unit
    assert {"KillMode=mixed", "TimeoutStopSec=300", "Restart=on-failure", "MemoryMax=4G"} <= set(unit.splitlines())
    assert "EnvironmentFile=/etc/sqlstream/job/secrets.env" in unit


def test_what_manifests_refer_to_is_there():
    documents = list(yaml.safe_load_all(deployed("kubernetes")["job.yaml"]))
    names = {(d["kind"], d["metadata"]["name"]) for d in documents}
    (deployment,) = [d for d in documents if d["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    volumes = {v["name"]: v for v in pod["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes)
    assert ("ConfigMap", volumes["scripts"]["configMap"]["name"]) in names
    assert ("PersistentVolumeClaim", volumes["checkpoints"]["persistentVolumeClaim"]["claimName"]) in names
    assert deployment["spec"]["selector"]["matchLabels"] == deployment["spec"]["template"]["metadata"]["labels"]
    assert {p: container[f"{p}Probe"]["httpGet"]["path"] for p in ("startup", "readiness", "liveness")} == {
        "startup": "/ready", "readiness": "/ready", "liveness": "/health",
    }  # fmt: skip
    assert container["env"] == [
        {"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "job-secrets", "key": "DB_PASSWORD"}}}
    ]
    assert documents[0]["data"] == {"job.sql": SCRIPT}
    assert pod["terminationGracePeriodSeconds"] == 300
    assert "metrics.prometheus.host=0.0.0.0" in container["args"]


def test_checkpoints_elsewhere_need_no_volume():
    manifests = list(yaml.safe_load_all(deployed("kubernetes", *DIR)["job.yaml"]))
    assert "PersistentVolumeClaim" not in {d["kind"] for d in manifests}


def test_a_service_is_published_on_this_machine_alone_and_checked():
    files = deployed("compose", "--memory", "1500Mi", "--metrics-port", "9999")
    compose = yaml.safe_load(files["compose.yaml"])
    service = compose["services"]["job"]
    assert (service["ports"], service["mem_limit"]) == (["127.0.0.1:9999:9999"], "1500m")
    assert "http://127.0.0.1:9999/health" in service["healthcheck"]["test"][-1]
    assert service["volumes"] == ["checkpoints:/checkpoints"] and "checkpoints" in compose["volumes"]
    assert "pip install --no-cache-dir 'sqlstream[postgres]==" in files["Dockerfile"]


def test_a_program_for_a_cluster_starts_with_sparks_settings_and_stops_by_request():
    files = deployed("spark-submit", *DIR, "--master", "spark://h:7077", "--set", "spark.executor.memory=2g")
    assert "--master spark://h:7077" in files["start.sh"] and "--conf spark.executor.memory=2g" in files["start.sh"]
    assert not {"--master", "spark.executor.memory=2g"} & set(command_of("spark-submit", files))
    assert "sqlstream jobs stop --all --dir s3a://bucket/jobs --savepoint" in files["stop.sh"]
    for script in ("start.sh", "stop.sh"):
        subprocess.run(["sh", "-n", f"out/{script}"], check=True)
        assert Path("out", script).stat().st_mode & 0o100


def test_a_script_may_say_where_its_checkpoints_are(tmp_path, capsys):
    (tmp_path / "job.sql").write_text(f"SET 'execution.checkpointing.dir' = '/data/jobs';\n{SCRIPT}")
    files = deployed("compose")
    assert yaml.safe_load(files["compose.yaml"])["services"]["job"]["volumes"] == ["checkpoints:/data/jobs"]
    assert not [a for a in command_of("compose", files) if a.startswith("execution.checkpointing.dir")]
    assert run(["deploy", "job.sql", "--target", "compose", "--dir", "/other"]) == 2
    assert 'a script sets the directory of checkpoints to "/data/jobs"; leave out --dir' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("job.sql", "--target", "spark-submit"), 2, "needs --dir"),
        (("-", "--target", "systemd"), 2, "a deployment is made of files, not of standard input"),
        (("job.sql", "--target", "systemd", "--name", "My_Job"), 2, '"My_Job" is no name of a deployment'),
        (("job.sql", "--target", "systemd", "--memory", "lots"), 2, '"lots" is no --memory; write it as 4Gi or 1500Mi'),
        (("My Job.sql", "--target", "systemd"), 2, '"My Job.sql" is no name for a file of a deployment'),
        (("job.sql", "./job.sql", "--target", "systemd"), 1, "SS"),
        (("bad.sql", "--target", "systemd"), 1, 'bad.sql: SS201: column "x" does not exist'),
    ],
)
def test_what_cannot_be_deployed_is_refused(arguments, code, message, tmp_path, capsys):
    (tmp_path / "bad.sql").write_text(f"{SCRIPT} INSERT INTO totals SELECT x, 1 FROM bids")
    assert run(["deploy", *arguments]) == code
    assert message in capsys.readouterr().err


def test_nothing_is_overwritten(capsys):
    deployed("systemd")
    assert run(["deploy", "job.sql", "--target", "systemd", "--to", "out"]) == 2
    assert '"out/job.service" exists; give another folder: --to FOLDER' in capsys.readouterr().err
