"""A unit of systemd for the jobs of a machine."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import PurePosixPath

from sqlstream.deploy.deployment import STOP_SECONDS, Deployment, is_remote
from sqlstream.deploy.secret_files import variables_file


def work(deployment: Deployment) -> str:
    """The folder in which the scripts run, where relative paths are. It is the unit's state, which it may write."""
    return f"/var/lib/sqlstream/{deployment.name}"


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
    scripts = tuple(replace(script, name=f"/etc/sqlstream/{name}/{script.name}") for script in deployment.scripts)
    command = " ".join(map(_quoted, replace(deployment, scripts=scripts).arguments(checkpoints)))
    state = f"StateDirectory=sqlstream/{name}{'' if deployment.checkpoints else f' sqlstream/{name}/checkpoints'}\n"
    state += "".join(f"ReadWritePaths={_quoted(folder, in_command=False)}\n" for folder in _writable(deployment))
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


def _writable(deployment: Deployment) -> list[str]:
    """The folders outside its state that the unit writes: checkpoints, and the tables that the scripts write."""
    checkpoints = deployment.checkpoints
    own = [] if checkpoints is None or is_remote(checkpoints) else [checkpoints]
    paths = [*own, *(folder.path for folder in deployment.folders if folder.written)]
    absolute = [path.removeprefix("file://") for path in paths if path.removeprefix("file://").startswith("/")]
    return list(dict.fromkeys(absolute))


def _beside(deployment: Deployment) -> list[str]:
    """The folders of tables with relative paths, which are in the unit's state."""
    paths = [folder.path.removeprefix("file://") for folder in deployment.folders if folder.is_relative]
    return list(dict.fromkeys(str(PurePosixPath(work(deployment)) / path) for path in paths))


def _quoted(argument: str, in_command: bool = True) -> str:
    """An argument as systemd reads it: % means something to it, and in commands $ does, too."""
    escaped = argument.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    escaped = escaped.replace("$", "$$") if in_command else escaped
    plain = all(c.isalnum() or c in "-_=./:,@+" for c in escaped)
    return escaped if plain else f'"{escaped}"'


def _readme(deployment: Deployment) -> str:
    name = deployment.name
    scripts = " ".join(script.name for script in deployment.scripts)
    folders = "".join(f"    sudo install -d -o sqlstream {shlex.quote(folder)}\n" for folder in _writable(deployment))
    own = " ".join(shlex.quote(folder) for folder in [work(deployment), *_beside(deployment)])
    return f"""# {name}, run by systemd

The machine needs Java 17 and Python 3.11, or newer ones; of Debian:

    sudo apt-get install openjdk-17-jre-headless python3-venv

Then, in this folder:

    sudo useradd --system --create-home --home-dir /var/lib/sqlstream sqlstream
    sudo python3 -m venv /opt/sqlstream && sudo /opt/sqlstream/bin/pip install {deployment.requirements}
    sudo install -d -o sqlstream /etc/sqlstream/{name}
    sudo install -d -o sqlstream {own}
{folders}    sudo install -m 644 {scripts} /etc/sqlstream/{name}/
    sudo install -m 600 secrets.env /etc/sqlstream/{name}/   # with the values filled in there
    sudo install -m 644 {name}.service /etc/systemd/system/
    sudo systemctl daemon-reload && sudo systemctl enable --now {name}

`systemctl stop {name}` takes a savepoint of each job; `journalctl -u {name}` says where it is. The next start goes on
from the checkpoints. `curl 127.0.0.1:{deployment.metrics_port}/ready` says whether the jobs run.
Relative paths of tables are in `{work(deployment)}`: copy there the files that the scripts are to read.
"""
