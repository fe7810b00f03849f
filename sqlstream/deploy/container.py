"""The image of a deployment, and its service of Docker Compose."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlstream.deploy.deployment import STOP_SECONDS, Deployment, is_remote
from sqlstream.deploy.secret_files import variables_file
from sqlstream.yaml_text import yaml_text

CHECKPOINTS = "/checkpoints"
WORK = "/opt/job"
USER = 10001
HOST = {"metrics.prometheus.host": "0.0.0.0"}
"""In a container this machine is the container: what asks for its health is outside."""


def checkpoints_in(deployment: Deployment) -> str:
    """The directory of the checkpoints inside the container."""
    return deployment.checkpoints or CHECKPOINTS


def volume_of(deployment: Deployment) -> str | None:
    """The directory of the container that must outlive it; None where checkpoints are elsewhere."""
    checkpoints = checkpoints_in(deployment)
    return None if is_remote(checkpoints) else checkpoints.removeprefix("file://")


def command_of(deployment: Deployment) -> list[str]:
    """What the container runs."""
    return ["sqlstream", *deployment.arguments(checkpoints_in(deployment), HOST)]


def dockerfile(deployment: Deployment, folder: str = "") -> str:
    """The file that makes the image. ``folder``: where the scripts are beside it, with a slash at the end."""
    scripts = " ".join(f"{folder}{script.name}" for script in deployment.scripts)
    volume = volume_of(deployment)
    folder = f" && install -d -o {USER} {volume}" if volume is not None else ""
    return f"""FROM python:3.12-slim-bookworm
RUN apt-get update && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps \\
    && rm -rf /var/lib/apt/lists/*
{deployment.copied_wheel}RUN pip install --no-cache-dir '{deployment.requirement}'
RUN useradd --uid {USER} --create-home sqlstream{folder}
WORKDIR {WORK}
COPY {scripts} {WORK}/
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
    volume = volume_of(deployment)
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
    if volume is None:
        return {"name": deployment.name, "services": {deployment.name: service}}
    service["volumes"] = [f"checkpoints:{volume}"]
    return {"name": deployment.name, "services": {deployment.name: service}, "volumes": {"checkpoints": {}}}
