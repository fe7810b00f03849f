"""A deployment on Kubernetes: one pod that runs Spark in itself, with its scripts, volume, probes and metrics."""

from __future__ import annotations

from typing import Any

from sqlstream.deploy.container import USER, WORK, command_of, dockerfile, volume_of
from sqlstream.deploy.deployment import STOP_SECONDS, Deployment
from sqlstream.yaml_text import yaml_text


def files(deployment: Deployment) -> dict[str, str]:
    """The manifests and the image."""
    documents = "---\n".join(yaml_text(document) for document in manifests(deployment))
    return {
        f"{deployment.name}.yaml": documents,
        "Dockerfile": dockerfile(deployment),
        **{script.name: script.text for script in deployment.scripts},
    }


def secret_of(deployment: Deployment) -> str:
    """The name of the Secret that holds the variables, which nobody but the cluster's users makes."""
    return f"{deployment.name}-secrets"


def manifests(deployment: Deployment) -> list[dict[str, Any]]:
    """The objects, in the order in which they are applied."""
    made = [_scripts(deployment)]
    if volume_of(deployment) is not None:
        made.append(_claim(deployment))
    return [*made, _deployment(deployment), _service(deployment)]


def _metadata(deployment: Deployment, name: str, **more: Any) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": deployment.name, "app.kubernetes.io/managed-by": "sqlstream"}
    return {"name": name, "labels": labels, **more}


def _scripts(deployment: Deployment) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(deployment, f"{deployment.name}-scripts"),
        "data": {script.name: script.text for script in deployment.scripts},
    }


def _claim(deployment: Deployment) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": _metadata(deployment, f"{deployment.name}-checkpoints"),
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}},
    }


def _deployment(deployment: Deployment) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": deployment.name}
    port = str(deployment.metrics_port)
    scraped = {"prometheus.io/scrape": "true", "prometheus.io/port": port, "prometheus.io/path": "/metrics"}
    pod = {
        "terminationGracePeriodSeconds": STOP_SECONDS,
        "securityContext": {"runAsNonRoot": True, "runAsUser": USER, "fsGroup": USER},
        "automountServiceAccountToken": deployment.master is not None,
        "containers": [_container(deployment)],
        "volumes": _volumes(deployment),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(deployment, deployment.name),
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels, "annotations": scraped}, "spec": pod},
        },
    }


def _container(deployment: Deployment) -> dict[str, Any]:
    mounts = [{"name": "scripts", "mountPath": WORK}]
    if (volume := volume_of(deployment)) is not None:
        mounts.append({"name": "checkpoints", "mountPath": volume})
    return {
        "name": "sqlstream",
        "image": deployment.image,
        "args": command_of(deployment),
        "workingDir": WORK,
        "env": [_variable(deployment, name) for name in deployment.variables],
        "ports": [{"name": "metrics", "containerPort": deployment.metrics_port}],
        "startupProbe": {**_probe("/ready"), "periodSeconds": 5, "failureThreshold": 60},
        "readinessProbe": {**_probe("/ready"), "periodSeconds": 10},
        "livenessProbe": {**_probe("/health"), "periodSeconds": 15, "failureThreshold": 4},
        "resources": {
            "requests": {"cpu": "1", "memory": deployment.memory},
            "limits": {"memory": deployment.memory},
        },
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": mounts,
    }


def _variable(deployment: Deployment, name: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret_of(deployment), "key": name}}}


def _probe(path: str) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": "metrics"}, "timeoutSeconds": 5}


def _volumes(deployment: Deployment) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = [{"name": "scripts", "configMap": {"name": f"{deployment.name}-scripts"}}]
    if volume_of(deployment) is not None:
        claim = {"claimName": f"{deployment.name}-checkpoints"}
        volumes.append({"name": "checkpoints", "persistentVolumeClaim": claim})
    return volumes


def _service(deployment: Deployment) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(deployment, f"{deployment.name}-metrics"),
        "spec": {
            "clusterIP": "None",
            "selector": {"app.kubernetes.io/name": deployment.name},
            "ports": [{"name": "metrics", "port": deployment.metrics_port, "targetPort": "metrics"}],
        },
    }
