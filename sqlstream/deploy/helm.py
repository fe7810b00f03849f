"""A chart of Helm: the manifests of Kubernetes, with what differs between clusters in ``values.yaml``."""

from __future__ import annotations

import re
from typing import Any

from sqlstream.deploy import kubernetes
from sqlstream.deploy.container import dockerfile, volumes_of
from sqlstream.deploy.deployment import Deployment
from sqlstream.version import __version__
from sqlstream.yaml_text import yaml_text

_DELIMITERS = re.compile(r"\{\{|\}\}")


def files(deployment: Deployment) -> dict[str, str]:
    """The chart, its values, its templates, the scripts, which templates read, and the image."""
    repository, colon, tag = deployment.image.rpartition(":")
    tagged = bool(colon) and "/" not in tag  # else it is the port of a registry
    values = {
        "image": {"repository": repository, "tag": tag}
        if tagged
        else {"repository": deployment.image, "tag": "latest"},
        "resources": {"cpu": "1", "memory": deployment.memory},
        "existingSecret": kubernetes.secret_of(deployment),
        **{name: {"size": "10Gi", "storageClass": ""} for name in volumes_of(deployment)},
        "podAnnotations": {},
    }
    chart = {
        "apiVersion": "v2",
        "name": deployment.name,
        "description": f"The streaming jobs of {deployment.name}, run by sqlstream",
        "type": "application",
        "version": "0.1.0",
        "appVersion": __version__,
    }
    return {
        "Chart.yaml": yaml_text(chart),
        "values.yaml": yaml_text(values),
        **{f"templates/{kind}.yaml": text for kind, text in templates(deployment).items()},
        **{f"scripts/{script.name}": script.text for script in deployment.scripts},
        "Dockerfile": dockerfile(deployment, "scripts/"),
        ".helmignore": "Dockerfile\n*.whl\n",
    }


def templates(deployment: Deployment) -> dict[str, str]:
    """The templates by the kinds of their objects. Text of ours that looks like an action of a template is escaped."""
    made: dict[str, list[str]] = {}
    for document in kubernetes.manifests(deployment):
        made.setdefault(document["kind"].lower(), []).append(_template(document, deployment))
    return {kind: "---\n".join(texts) for kind, texts in made.items()}


def _template(document: dict[str, Any], deployment: Deployment) -> str:
    if document["kind"] == "ConfigMap":
        head = yaml_text({key: value for key, value in document.items() if key != "data"})
        return f'{head}data:\n{{{{- (.Files.Glob "scripts/*").AsConfig | nindent 2 }}}}\n'
    text = _DELIMITERS.sub(lambda found: f'{{{{ "{found[0]}" }}}}', yaml_text(document))
    secret = kubernetes.secret_of(deployment)
    volume = document["metadata"]["name"].removeprefix(f"{deployment.name}-")
    for written, action in (
        (f"image: {_scalar(deployment.image)}", 'image: "{{ .Values.image.repository }}:{{ .Values.image.tag }}"'),
        (f"memory: {_scalar(deployment.memory)}", "memory: {{ .Values.resources.memory | quote }}"),
        ('cpu: "1"', "cpu: {{ .Values.resources.cpu | quote }}"),
        (f"name: {_scalar(secret)}", "name: {{ .Values.existingSecret | quote }}"),
        ("storage: " + _scalar("10Gi"), f"storage: {{{{ .Values.{volume}.size | quote }}}}"),
    ):
        text = text.replace(written, action)
    if document["kind"] == "PersistentVolumeClaim":
        chosen = "  {{- with .Values.VOLUME.storageClass }}\n  storageClassName: {{ . | quote }}\n  {{- end }}\n"
        text += chosen.replace("VOLUME", volume)
    if document["kind"] in ("Deployment", "Job"):
        text = text.replace(
            "      annotations:\n",
            "      annotations:\n        {{- with .Values.podAnnotations }}\n"
            "        {{- toYaml . | nindent 8 }}\n        {{- end }}\n",
        )
    return text


def _scalar(text: str) -> str:
    return yaml_text({"x": text}).removeprefix("x: ").rstrip("\n")
