"""The image of a deployment, and its service of Docker Compose."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from sqlstream.deploy.deployment import STOP_SECONDS, Deployment, ScriptFile, is_remote
from sqlstream.deploy.secret_files import variables_file
from sqlstream.yaml_text import yaml_text

CHECKPOINTS = "/checkpoints"
SCRIPTS = "/opt/job"
"""Where the scripts are, which Kubernetes mounts for reading only."""
DATA = "/data"
"""The working directory, where relative paths are: a volume, where the scripts have tables with such paths."""
USER = 10001
HOST = {"metrics.prometheus.host": "0.0.0.0"}
"""In a container this machine is the container: what asks for its health is outside."""


def checkpoints_in(deployment: Deployment) -> str:
    """The directory of the checkpoints inside the container."""
    return deployment.checkpoints or CHECKPOINTS


def volumes_of(deployment: Deployment) -> dict[str, str]:
    """The directories of the container that must outlive it, by the names of their volumes."""
    checkpoints = checkpoints_in(deployment)
    path = str(PurePosixPath(DATA) / checkpoints.removeprefix("file://"))
    data = {"data": DATA} if any(folder.is_relative for folder in deployment.folders) else {}
    return data if is_remote(checkpoints) else {**data, "checkpoints": path}


def mounted_scripts(deployment: Deployment) -> tuple[ScriptFile, ...]:
    """The scripts under the paths that they have in the container, whose working directory is another one."""
    return tuple(replace(script, name=f"{SCRIPTS}/{script.name}") for script in deployment.scripts)


def command_of(deployment: Deployment) -> list[str]:
    """What the container runs."""
    mounted = replace(deployment, scripts=mounted_scripts(deployment))
    return ["sqlstream", *mounted.arguments(checkpoints_in(deployment), HOST)]


def dockerfile(deployment: Deployment, folder: str = "") -> str:
    """The file that makes the image. ``folder``: where the scripts are beside it, with a slash at the end."""
    scripts = " ".join(f"{folder}{script.name}" for script in deployment.scripts)
    folders = " ".join(map(shlex.quote, dict.fromkeys([DATA, *volumes_of(deployment).values()])))
    return f"""FROM python:3.12-slim-bookworm
RUN apt-get update && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps \\
    && rm -rf /var/lib/apt/lists/*
{deployment.copied_wheels}RUN pip install --no-cache-dir {deployment.requirements}
RUN useradd --uid {USER} --create-home sqlstream && install -d -o {USER} {folders}
COPY {scripts} {SCRIPTS}/
WORKDIR {DATA}
USER {USER}
EXPOSE {deployment.metrics_port}
CMD {json.dumps(command_of(deployment))}
"""


def probe(deployment: Deployment, path: str) -> Sequence[str]:
    """A command in the container that succeeds where a page of its server answers with 200."""
    address = f"http://127.0.0.1:{deployment.metrics_port}{path}"
    return ["python", "-c", f"import urllib.request; urllib.request.urlopen('{address}', timeout=5)"]


def compose_files(deployment: Deployment) -> dict[str, str]:
    """The image and its service, with the scripts and the file of the secrets' variables, without values."""
    return {
        "compose.yaml": yaml_text(_compose(deployment)),
        "Dockerfile": dockerfile(deployment),
        **{script.name: script.text for script in deployment.scripts},
        "secrets.env": variables_file(deployment, "secrets.env"),
        ".dockerignore": "secrets.env\n",
    }


def _compose(deployment: Deployment) -> dict[str, object]:
    volumes = volumes_of(deployment)
    service: dict[str, object] = {
        "image": deployment.image,
        "build": ".",
        "env_file": ["secrets.env"],
        "ports": [f"127.0.0.1:{deployment.metrics_port}:{deployment.metrics_port}"],
        "restart": "on-failure",
        "init": True,
        "stop_signal": "SIGTERM",
        "stop_grace_period": f"{STOP_SECONDS}s",
        "mem_limit": deployment.memory.removesuffix("i").lower(),
        "healthcheck": {
            "test": ["CMD", *probe(deployment, "/health")],
            "interval": "15s",
            "timeout": "10s",
            "retries": 4,
            "start_period": "120s",
        },
    }
    compose: dict[str, object] = {"name": deployment.name, "services": {deployment.name: service}}
    if not volumes:
        return compose
    service["volumes"] = [f"{name}:{path}" for name, path in volumes.items()]
    return {**compose, "volumes": {name: {} for name in volumes}}
