"""The files of deployments: what they run, where checkpoints and secrets are, and what is refused."""

from __future__ import annotations

import ast
import configparser
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import zipfile
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
import yaml

from sqlstream.cli import commands, run
from sqlstream.deploy.kubernetes_schema import require_valid
from sqlstream.deploy.systemd import _quoted

SCRIPT = """CREATE TABLE bids (k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'datagen', 'rows-per-second' = '10');
CREATE TABLE totals (k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'postgres', 'url' = 'postgresql://db/shop', 'username' = 'etl', 'table-name' = 'totals',
      'password' = '${DB_PASSWORD}');
INSERT INTO totals SELECT k, COUNT(*) FROM bids GROUP BY k;
"""
TARGETS = ("systemd", "compose", "kubernetes", "helm", "spark-operator", "spark-submit")
DIR = ("--dir", "s3a://bucket/jobs")


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DB_PASSWORD", "hunter2-and-more")
    monkeypatch.setattr(import_module("sqlstream.cli.deploy"), "distributions", lambda name: [])  # as of an index
    (tmp_path / "My Job.sql").write_text("SELECT 1")
    (tmp_path / "job.sql").write_text(SCRIPT)


def deployed(target, *options):
    """The files of a deployment of ``job.sql``, by their names."""
    assert run(["deploy", "job.sql", "--target", target, "--to", "out", *options]) == 0
    return {str(p.relative_to("out")): p.read_text() for p in sorted(Path("out").rglob("*")) if p.is_file()}


def command_of(target, files):
    """The arguments of sqlstream in the files."""
    match target:
        case "systemd":
            unit = configparser.RawConfigParser(strict=False)
            unit.optionxform = str  # type: ignore[method-assign,assignment]
            unit.read_string(files["job.service"])
            return shlex.split(unit["Service"]["ExecStart"].replace("%%", "%").replace("$$", "$"))[1:]
        case "spark-submit" | "spark-operator":
            (assigned,) = [n for n in ast.parse(files["job.py"]).body if isinstance(n, ast.Assign)]
            return ast.literal_eval(assigned.value)
        case "compose":
            (line,) = [line for line in files["Dockerfile"].splitlines() if line.startswith("CMD ")]
            return json.loads(line.removeprefix("CMD "))[1:]
    documents = rendered(files) if target == "helm" else list(yaml.safe_load_all(files["job.yaml"]))
    (pod,) = [d["spec"]["template"]["spec"] for d in documents if d["kind"] in ("Deployment", "Job")]
    arguments = pod["containers"][0]["args"][1:]
    assert not any(re.search(r"(?<!\$)\$\(", argument) for argument in arguments), "Kubernetes puts variables there"
    return [argument.replace("$$(", "$(") for argument in arguments]


def rendered(files, **changed):
    """The objects of a chart, as Helm renders the few actions that our templates have. ``changed``: values."""
    values = {**yaml.safe_load(files["values.yaml"]), **changed}

    def value(match):
        found = values
        for name in match[1].split("."):
            found = found[name]
        return json.dumps(str(found)) if match[2] else str(found)

    documents: list[Any] = []
    for name, text in files.items():
        if name.startswith("templates/"):
            text = re.sub(r" *\{\{- with \.Values\.[\w.]+ \}\}\n(.*?) *\{\{- end \}\}\n", "", text, flags=re.DOTALL)
            scripts = {n.removeprefix("scripts/"): t for n, t in files.items() if n.startswith("scripts/")}
            text = text.replace('{{- (.Files.Glob "scripts/*").AsConfig | nindent 2 }}', f"  {json.dumps(scripts)}")
            text = re.sub(r"\{\{ \.Values\.([\w.]+)( \| quote)? \}\}", value, text)
            documents += yaml.safe_load_all(re.sub(r'\{\{ "(\{\{|\}\})" \}\}', r"\1", text))
    return documents


@pytest.mark.parametrize("target", TARGETS)
def test_the_command_is_one_that_sqlstream_takes(target, capsys):
    arguments = command_of(target, deployed(target, *DIR, "--set", "pipeline.name=a 100% $name $(HOME)"))
    folders = {"spark-submit": "", "systemd": "/etc/sqlstream/job/"}
    assert arguments[:2] == ["run", f"{folders.get(target, '/opt/job/')}job.sql"]
    assert "execution.checkpointing.dir=s3a://bucket/jobs" in arguments
    assert "pipeline.name=a 100% $name $(HOME)" in arguments
    assert arguments[-6:] == ["--metrics-port", "9464", "--log-format", "json", "--no-progress", "--savepoint-on-term"]
    command = commands.commands["run"]
    context = command.make_context("run", arguments[1:], parent=click.Context(commands, **commands.context_settings))
    assert context.params["savepoint_on_term"]
    assert f"out/{'scripts/' if target == 'helm' else ''}job.sql" in capsys.readouterr().out.splitlines()


def test_a_dollar_means_something_to_systemd_in_commands_alone():
    assert (_quoted("/a $b"), _quoted("/a $b%c", in_command=False)) == ('"/a $$b"', '"/a $b%%c"')


@pytest.mark.parametrize("target", TARGETS)
def test_files_name_variables_and_never_have_their_values(target):
    files = deployed(target, *DIR)
    assert "DB_PASSWORD" in "".join(text for name, text in files.items() if not name.endswith("job.sql"))
    assert "hunter2" not in "".join(files.values())
    if target in ("systemd", "compose", "spark-submit"):
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


FILES = """CREATE TABLE bids (k STRING) WITH ('connector' = 'filesystem', 'path' = 'bids', 'format' = 'json');
CREATE TABLE copies (k STRING) WITH ('connector' = 'filesystem', 'path' = '/srv/my copies', 'format' = 'json');
CREATE TABLE stored (k STRING) WITH ('connector' = 'filesystem', 'path' = 's3://b/t', 'format' = 'json');
CREATE TABLE changes (k STRING, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'mysql-cdc', 'hostname' = 'h',
    'username' = 'u', 'password' = '${DB_PASSWORD}', 'database-name' = 'd', 'table-name' = 't');
"""


def test_a_deployment_has_the_name_of_the_script_that_starts_jobs_and_the_folders_that_it_writes(tmp_path, capsys):
    (tmp_path / "tables.sql").write_text(FILES)
    (tmp_path / "copy.sql").write_text("INSERT INTO copies SELECT k FROM bids")
    both = ["deploy", "tables.sql", "copy.sql"]
    assert run([*both, "--target", "systemd"]) == 0
    unit, readme = (Path("deploy-copy", name).read_text() for name in ("copy.service", "README.md"))
    assert 'ReadWritePaths="/srv/my copies"\n' in unit and "ReadWritePaths=bids" not in unit
    assert "sudo install -d -o sqlstream '/srv/my copies'\n" in readme and "'sqlstream[mysql]==" in readme
    relative = 'the path "bids" of table "bids" is relative, and is looked for in'
    ends, path = capsys.readouterr().err.splitlines()
    assert "their jobs end with it" in ends
    assert path == f"warning: {relative} /var/lib/sqlstream/copy: put its files there, or write an absolute one"
    assert "sudo install -d -o sqlstream /var/lib/sqlstream/copy /var/lib/sqlstream/copy/bids\n" in readme
    assert run([*both, "--target", "compose", "--dry-run"]) == 0
    assert capsys.readouterr().err.splitlines()[1:] == [
        f"warning: {relative} the volume /data: put its files there, or write an absolute one",
        'warning: the path "/srv/my copies" of table "copies" is one of the container: add '
        '"/srv/my copies:/srv/my copies" to the volumes of the service, or its rows are lost with the container',
    ]
    assert run([*both, "--target", "spark-operator", *DIR, "--dry-run"]) == 0
    pods, mounted = capsys.readouterr().err.splitlines()[1:]
    assert "in each pod by itself: write one in a store that all reach" in pods
    assert "mount a volume at /srv/my copies in driver and executors" in mounted
    assert run([*both, "--target", "spark-submit", *DIR, "--dry-run"]) == 0
    assert capsys.readouterr().err.splitlines()[1:] == [
        f"warning: {relative} the folder of start.sh: write an absolute one"
    ]


@pytest.mark.parametrize("target", ["compose", "kubernetes", "helm"])
def test_relative_paths_are_in_a_volume_that_outlives_the_container(target, tmp_path, capsys):
    """The container runs in it; scripts are elsewhere, where Kubernetes mounts them for reading only."""
    text = FILES.replace("/srv/my copies", "copies") + "INSERT INTO copies SELECT k FROM bids"
    (tmp_path / "job.sql").write_text(text)
    files = deployed(target, "--dir", "jobs")
    assert '"copies"' not in capsys.readouterr().err
    assert command_of(target, files)[1] == "/opt/job/job.sql"
    assert "install -d -o 10001 /data /data/jobs\n" in files["Dockerfile"]
    assert "\nWORKDIR /data\n" in files["Dockerfile"]
    if target == "compose":
        compose = yaml.safe_load(files["compose.yaml"])
        assert compose["services"]["job"]["volumes"] == ["data:/data", "checkpoints:/data/jobs"]
        assert compose["volumes"] == {"data": {}, "checkpoints": {}}
        return
    sizes = {"data": {"size": "7Gi"}} if target == "helm" else {}
    documents = rendered(files, **sizes) if target == "helm" else list(yaml.safe_load_all(files["job.yaml"]))
    claims = {
        d["metadata"]["name"]: d["spec"]["resources"]["requests"]["storage"]
        for d in documents
        if d["kind"] == "PersistentVolumeClaim"
    }
    assert claims == {"job-data": "7Gi" if target == "helm" else "10Gi", "job-checkpoints": "10Gi"}
    (pod,) = [d["spec"]["template"]["spec"] for d in documents if d["kind"] in ("Deployment", "Job")]
    (container,) = pod["containers"]
    assert container["workingDir"] == "/data"
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts == {"scripts": "/opt/job", "data": "/data", "checkpoints": "/data/jobs"}
    named = {v["name"]: v.get("persistentVolumeClaim", {}).get("claimName") for v in pod["volumes"]}
    assert named == {"scripts": None, "data": "job-data", "checkpoints": "job-checkpoints"}


def test_a_unit_writes_relative_paths_into_its_state_and_systemd_takes_it(tmp_path, capsys):
    (tmp_path / "job.sql").write_text(
        FILES.replace("/srv/my copies", "copies") + "INSERT INTO copies SELECT k FROM bids"
    )
    files = deployed("systemd", "--dir", "checkpoints")
    lines = files["job.service"].splitlines()
    assert {"WorkingDirectory=/var/lib/sqlstream/job", "StateDirectory=sqlstream/job"} <= set(lines)
    assert not [line for line in lines if line.startswith("ReadWritePaths=")]  # systemd takes absolute ones alone
    assert "/var/lib/sqlstream/job/bids /var/lib/sqlstream/job/copies\n" in files["README.md"]
    assert '"copies"' not in capsys.readouterr().err
    if (verify := shutil.which("systemd-analyze")) is not None:
        unit = files["job.service"].replace("/opt/sqlstream/bin/sqlstream", "/bin/true")
        Path("out/job.service").write_text(unit.replace("User=sqlstream", "User=root"))
        done = subprocess.run([verify, "verify", "out/job.service"], capture_output=True, text=True, check=False)
        assert "job.service" not in done.stderr, done.stderr


def test_a_unit_may_write_its_checkpoints_elsewhere_and_their_folder_is_made():
    files = deployed("systemd", "--dir", "/srv/checkpoints")
    assert "ReadWritePaths=/srv/checkpoints\n" in files["job.service"]
    assert "sudo install -d -o sqlstream /srv/checkpoints\n" in files["README.md"]


@pytest.mark.parametrize("target", TARGETS)
def test_a_wheel_is_copied_beside_the_files_and_installed(target, capsys):
    wheel = "sqlstream-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("sqlstream/__init__.py", "")
    command = ["deploy", "job.sql", "--target", target, "--to", "out", *DIR, "--wheel", wheel]
    assert run([*command, "--dry-run"]) == 0
    assert capsys.readouterr().out.endswith(f"--- {wheel}\na copy of {wheel}\n") and not Path("out").exists()
    assert run(command) == 0
    assert capsys.readouterr().out.endswith(f"\nout/{wheel}\n")
    assert Path("out", wheel).read_bytes() == Path(wheel).read_bytes()
    names = {"systemd": "README.md", "spark-submit": "start.sh"}
    text = Path("out", names.get(target, "Dockerfile")).read_text()
    assert f"./{wheel}[postgres]" in text and "==" not in text
    if target not in names:
        assert text.index(f"COPY {wheel} ./") < text.index("pip install")


PLANNER, FULL = "sqlstream_planner-0.1.0-py3-none-any.whl", "sqlstream-0.1.0-py3-none-any.whl"


def _release():
    """The wheels of a release: one with all modules, and one without, which depends on it."""
    for name, member in ((PLANNER, "sqlstream/__init__.py"), (FULL, "sqlstream-0.1.0.dist-info/METADATA")):
        with zipfile.ZipFile(name, "w") as archive:
            archive.writestr(member, "")


def test_both_wheels_of_a_release_are_copied_and_installed():
    _release()
    files = deployed_with_wheels("compose", PLANNER, FULL)
    assert f"COPY {PLANNER} {FULL} ./\nRUN pip install --no-cache-dir ./{PLANNER} './{FULL}[postgres]'\n" in files
    assert Path("out", PLANNER).exists() and Path("out", FULL).exists()


def deployed_with_wheels(target, *wheels):
    """The Dockerfile of a deployment that installs wheels."""
    options = [argument for wheel in wheels for argument in ("--wheel", wheel)]
    assert run(["deploy", "job.sql", "--target", target, "--to", "out", *options]) == 0
    return Path("out", "Dockerfile").read_text()


@pytest.mark.parametrize(
    ("wheel", "message"),
    [(FULL, "holds no modules; give that of sqlstream-planner, too"), (PLANNER, "plans, and runs nothing")],
)
def test_one_wheel_of_a_release_is_refused(wheel, message, capsys):
    _release()
    assert run(["deploy", "job.sql", "--target", "compose", "--wheel", wheel]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("record", [None, "{}"])
def test_what_is_installed_from_a_file_is_on_no_index(record, monkeypatch, capsys):
    """An index may have another project under the name: pip then lacks our planner, and installs nothing."""
    installed = SimpleNamespace(read_text={"direct_url.json": record}.get)
    monkeypatch.setattr(import_module("sqlstream.cli.deploy"), "distributions", lambda name: [installed])
    dockerfile = deployed("compose")["Dockerfile"]
    assert re.search(r"pip install --no-cache-dir 'sqlstream\[postgres\]==\S+' sqlstream-planner==\S+\n", dockerfile)
    assert ("give its wheel, --wheel FILE" in capsys.readouterr().err) is (record is not None)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("other-1.whl", "is no wheel of sqlstream"),
        ("sqlstream-0.whl", "holds no modules"),
        ("sqlstream-1.whl", "is no"),
    ],
)
def test_what_is_no_wheel_of_a_clone_is_refused(name, message, capsys):
    if name != "sqlstream-1.whl":
        with zipfile.ZipFile(name, "w") as archive:
            archive.writestr("sqlstream-0.dist-info/METADATA", "")
    assert run(["deploy", "job.sql", "--target", "compose", "--wheel", name]) == 2
    assert message in capsys.readouterr().err


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
        (("job.sql", "--target", "spark-operator"), 2, "--target spark-operator needs --dir"),
        (("-", "--target", "systemd"), 2, "a deployment is made of files, not of standard input"),
        (("job.sql", "--target", "systemd", "--name", "My_Job"), 2, '"My_Job" is no name of a deployment'),
        (("job.sql", "--target", "systemd", "--memory", "lots"), 2, '"lots" is no --memory; write it as 4Gi or 1500Mi'),
        (("My Job.sql", "--target", "systemd"), 2, '"My Job.sql" is no name for a file of a deployment'),
        (("tables.sql", "--target", "systemd"), 2, "the scripts only define: give the files with their INSERT"),
        (("job.sql", "./job.sql", "--target", "systemd"), 1, "SS"),
        (("bad.sql", "--target", "systemd"), 1, 'bad.sql: SS201: column "x" does not exist'),
    ],
)
def test_what_cannot_be_deployed_is_refused(arguments, code, message, tmp_path, capsys):
    (tmp_path / "bad.sql").write_text(f"{SCRIPT} INSERT INTO totals SELECT x, 1 FROM bids")
    (tmp_path / "tables.sql").write_text(f"SET 'parallelism.default' = '2'; {SCRIPT.partition('INSERT')[0]}")
    assert run(["deploy", *arguments]) == code
    assert message in capsys.readouterr().err


BOUNDED = SCRIPT.replace("'rows-per-second' = '10'", "'number-of-rows' = '10'")


@pytest.mark.parametrize("target", ["kubernetes", "helm"])
def test_what_ends_is_a_job_of_kubernetes_that_starts_again_after_failures_alone(target, capsys):
    """A Deployment would start it again and again when it has ended well."""
    Path("job.sql").write_text(BOUNDED)
    files = deployed(target)
    documents = rendered(files) if target == "helm" else list(yaml.safe_load_all(files["job.yaml"]))
    assert not [d for d in documents if d["kind"] == "Deployment"]
    (job,) = [d for d in documents if d["kind"] == "Job"]
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "OnFailure"
    assert job["spec"]["template"]["spec"]["containers"][0]["args"][1] == "run"
    require_valid(job)
    assert "warning: all that the scripts read has an end" in capsys.readouterr().err


@pytest.mark.parametrize(("script", "ends"), [(BOUNDED, True), (SCRIPT, False)])
def test_a_script_that_ends_is_said_to(script, ends, capsys):
    Path("job.sql").write_text(script)
    unit = deployed("systemd")["job.service"]
    assert "Restart=on-failure" in unit
    assert ("their jobs end with it" in capsys.readouterr().err) is ends


def test_one_job_without_an_end_keeps_the_others_company(capsys):
    more = SCRIPT.replace("bids", "clicks").partition("CREATE TABLE totals")[0]
    Path("job.sql").write_text(f"{BOUNDED}{more}INSERT INTO totals SELECT k, COUNT(*) FROM clicks GROUP BY k;")
    (deployment,) = [
        d for d in yaml.safe_load_all(deployed("kubernetes")["job.yaml"]) if "strategy" in d.get("spec", {})
    ]
    assert deployment["kind"] == "Deployment" and "have an end" not in capsys.readouterr().err


def test_nothing_is_overwritten(capsys):
    deployed("systemd")
    assert run(["deploy", "job.sql", "--target", "systemd", "--to", "out"]) == 2
    assert '"out/job.service" exists; give another folder: --to FOLDER' in capsys.readouterr().err


def test_no_other_wheel_is_overwritten_and_one_that_is_there_already_is_taken(capsys):
    wheel = Path("out/sqlstream-0.1.0-py3-none-any.whl")
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("sqlstream/__init__.py", "")
    before = wheel.read_bytes()
    Path(wheel.name).write_bytes(before)
    assert run(["deploy", "job.sql", "--target", "compose", "--to", "out", "--wheel", wheel.name]) == 2
    assert f'"{wheel}" exists; give another folder' in capsys.readouterr().err
    assert run(["deploy", "job.sql", "--target", "compose", "--to", "out", "--wheel", str(wheel)]) == 0
    assert wheel.read_bytes() == before and Path("out/compose.yaml").exists()


def test_a_chart_renders_to_the_manifests_of_kubernetes(tmp_path):
    text = SCRIPT.replace("'datagen'", "'datagen', 'fields.k.length' = '3'").replace("SELECT k,", "SELECT '{{ k }}',")
    (tmp_path / "job.sql").write_text(text)
    image = ("--image", "registry:5000/shop:7")
    chart = deployed("helm", *image, "--set", "pipeline.name={{ .Values }}")
    assert yaml.safe_load(chart["Chart.yaml"])["name"] == "job"
    assert yaml.safe_load(chart["values.yaml"])["image"] == {"repository": "registry:5000/shop", "tag": "7"}
    assert run(["deploy", "job.sql", "--target", "kubernetes", "--to", "plain", *image, "--set",
                "pipeline.name={{ .Values }}"]) == 0  # fmt: skip
    plain = {d["kind"]: d for d in yaml.safe_load_all(Path("plain/job.yaml").read_text())}
    assert {d["kind"]: d for d in rendered(chart)} == plain
    other = {d["kind"]: d for d in rendered(chart, image={"repository": "r/shop", "tag": "8"}, existingSecret="mine")}
    (container,) = other["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "r/shop:8" and container["env"][0]["valueFrom"]["secretKeyRef"]["name"] == "mine"
    assert "COPY scripts/job.sql /opt/job/" in chart["Dockerfile"]


def test_an_application_of_the_operator_has_its_secrets_scripts_and_a_driver_that_is_scraped():
    files = deployed("spark-operator", *DIR, "--set", "spark.executor.cores=2")
    documents = {d["kind"]: d for d in yaml.safe_load_all(files["job.yaml"])}
    spec = documents["SparkApplication"]["spec"]
    assert spec["sparkConf"] == {"spark.executor.cores": "2"} and spec["mode"] == "cluster"
    assert spec["mainApplicationFile"] == "local:///opt/sqlstream/job.py"
    assert "COPY job.py /opt/sqlstream/job.py" in files["Dockerfile"]
    (variable,) = spec["driver"]["env"]
    assert variable["valueFrom"]["secretKeyRef"] == {"name": "job-secrets", "key": "DB_PASSWORD"}
    assert spec["executor"]["env"] == spec["driver"]["env"]  # their tasks write the table
    assert spec["volumes"][0]["configMap"]["name"] == documents["ConfigMap"]["metadata"]["name"]
    assert spec["driver"]["volumeMounts"] == [{"name": "scripts", "mountPath": "/opt/job"}]
    assert documents["Service"]["spec"]["selector"].items() <= spec["driver"]["labels"].items()
    assert (spec["driver"]["memory"], spec["restartPolicy"]["type"]) == ("4g", "OnFailure")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"kind": "Job"}, "there is no schema of Job (v1)"),
        ({"metadata": {}}, "ConfigMap.metadata.name is required"),
        ({"metadata": {"name": "A_b"}}, "ConfigMap.metadata.name is not like "),
        ({"date": {}}, "ConfigMap.date is no field"),
        ({"data": {"a": 1}}, "ConfigMap.data.a is no str: 1"),
        ({"data": []}, "ConfigMap.data is no object"),
    ],
)
def test_objects_are_checked_against_their_schemas(changed, message):
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "b"}}
    require_valid(document)
    with pytest.raises(ValueError, match=re.escape(message)):
        require_valid({**document, **changed})
