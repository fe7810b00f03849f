"""A unit of systemd for the jobs of a machine."""

from __future__ import annotations

import shlex

from sqlstream.deploy.deployment import STOP_SECONDS, Deployment, is_remote
from sqlstream.deploy.secret_files import variables_file


def work(deployment: Deployment) -> str:
    """The folder in which the scripts run, which they cannot write."""
    return f"/etc/sqlstream/{deployment.name}"


def files(deployment: Deployment) -> dict[str, str]:
    """The unit, the scripts, and the file of the secrets' variables, without values."""
    return {
        f"{deployment.name}.service": _unit(deployment),
        **{script.name: script.text for script in deployment.scripts},
        "secrets.env": variables_file(deployment, f"/etc/sqlstream/{deployment.name}/secrets.env"),
        "README.md": _readme(deployment),
    }


def _unit(deployment: Deployment) -> str:
    name = deployment.name
    checkpoints = deployment.checkpoints or f"/var/lib/sqlstream/{name}/checkpoints"
    command = " ".join(map(_quoted, deployment.arguments(checkpoints)))
    state = "" if deployment.checkpoints else f"StateDirectory=sqlstream/{name} sqlstream/{name}/checkpoints\n"
    own = [] if is_remote(checkpoints) or not deployment.checkpoints else [checkpoints]
    state += "".join(f"ReadWritePaths={_quoted(folder)}\n" for folder in [*own, *_written(deployment)])
    return f"""[Unit]
Description=sqlstream: {name}
Wants=network-online.target
After=network-online.target

[Service]
Type=exec
User=sqlstream
WorkingDirectory={work(deployment)}
EnvironmentFile=/etc/sqlstream/{name}/secrets.env
ExecStart=/opt/sqlstream/bin/sqlstream {command}
Restart=on-failure
RestartSec=10
# SIGTERM goes to the process itself, which takes a savepoint; what is left of its processes is killed afterwards.
KillMode=mixed
TimeoutStopSec={STOP_SECONDS}
MemoryMax={deployment.memory.removesuffix("i")}
{state}NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes

[Install]
WantedBy=multi-user.target
"""


def _written(deployment: Deployment) -> list[str]:
    """The folders of the tables that the scripts write."""
    folders = (f.path.removeprefix("file://") for f in deployment.folders if f.written and not f.is_relative)
    return list(dict.fromkeys(folders))


def _quoted(argument: str) -> str:
    """An argument as systemd reads it: % and $ mean something to it."""
    escaped = argument.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    plain = all(c.isalnum() or c in "-_=./:,@+" for c in escaped)
    return escaped if plain else f'"{escaped}"'


def _readme(deployment: Deployment) -> str:
    name = deployment.name
    scripts = " ".join(script.name for script in deployment.scripts)
    folders = "".join(f"    sudo install -d -o sqlstream {shlex.quote(folder)}\n" for folder in _written(deployment))
    return f"""# {name}, run by systemd

    sudo useradd --system --create-home --home-dir /var/lib/sqlstream sqlstream
    sudo python3 -m venv /opt/sqlstream && sudo /opt/sqlstream/bin/pip install '{deployment.requirement}'
    sudo install -d -o sqlstream /etc/sqlstream/{name}
{folders}    sudo install -m 644 {scripts} /etc/sqlstream/{name}/
    sudo install -m 600 secrets.env /etc/sqlstream/{name}/   # with the values filled in there
    sudo install -m 644 {name}.service /etc/systemd/system/
    sudo systemctl daemon-reload && sudo systemctl enable --now {name}

`systemctl stop {name}` takes a savepoint of each job; `journalctl -u {name}` says where it is. The next start goes on
from the checkpoints. `curl 127.0.0.1:{deployment.metrics_port}/ready` says whether the jobs run.
"""
