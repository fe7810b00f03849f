"""A deployment on Kubernetes: one pod that runs Spark in itself, with its scripts, volume, probes and metrics."""

from __future__ import annotations

from typing import Any

from sqlstream.deploy.container import DATA, SCRIPTS, USER, command_of, dockerfile, volumes_of
from sqlstream.deploy.deployment import RETRIES, STOP_SECONDS, Deployment
from sqlstream.deploy.kubernetes_schema import require_valid
from sqlstream.yaml_text import yaml_text


def files(deployment: Deployment) -> dict[str, str]:
    """The manifests and the image."""
    made = manifests(deployment)
    for document in made:
        require_valid(document)
    documents = "---\n".join(map(yaml_text, made))
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
    claims = [_claim(deployment, name) for name in volumes_of(deployment)]
    return [scripts_map(deployment), *claims, _workload(deployment), service(deployment)]


def metadata(deployment: Deployment, name: str) -> dict[str, Any]:
    """Name and labels of an object."""
    labels = {"app.kubernetes.io/name": deployment.name, "app.kubernetes.io/managed-by": "sqlstream"}
    return {"name": name, "labels": labels}


def scripts_map(deployment: Deployment) -> dict[str, Any]:
    """The ConfigMap with the scripts."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(deployment, f"{deployment.name}-scripts"),
        "data": {script.name: script.text for script in deployment.scripts},
    }


def _claim(deployment: Deployment, volume: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata(deployment, f"{deployment.name}-{volume}"),
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}},
    }


def _workload(deployment: Deployment) -> dict[str, Any]:
    """A Deployment, which starts its pod again whenever that ends; a Job, which does after failures alone, for scripts
    that end.
    """
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
    template = {"metadata": {"labels": labels, "annotations": scraped}, "spec": pod}
    named = {"metadata": metadata(deployment, deployment.name)}
    if deployment.ends:
        template["spec"] = {"restartPolicy": "OnFailure", **pod}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            **named,
            "spec": {"backoffLimit": RETRIES, "template": template},
        }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        **named,
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels},
            "template": template,
        },
    }


def _container(deployment: Deployment) -> dict[str, Any]:
    volumes = {"scripts": SCRIPTS, **volumes_of(deployment)}
    return {
        "name": "sqlstream",
        "image": deployment.image,
        # $(NAME) would be the value of a variable of the container.
        "args": [argument.replace("$(", "$$(") for argument in command_of(deployment)],
        "workingDir": DATA,
        "env": secret_variables(deployment),
        "ports": [{"name": "metrics", "containerPort": deployment.metrics_port}],
        "startupProbe": {**_probe("/ready"), "periodSeconds": 5, "failureThreshold": 60},
        "readinessProbe": {**_probe("/ready"), "periodSeconds": 10},
        "livenessProbe": {**_probe("/health"), "periodSeconds": 15, "failureThreshold": 4},
        "resources": {
            "requests": {"cpu": "1", "memory": deployment.memory},
            "limits": {"memory": deployment.memory},
        },
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in volumes.items()],
    }


def secret_variables(deployment: Deployment) -> list[dict[str, Any]]:
    """The variables of secrets, as references to the Secret."""
    secret = secret_of(deployment)
    return [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": name}}} for name in deployment.variables
    ]


def _probe(path: str) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": "metrics"}, "timeoutSeconds": 5}


def _volumes(deployment: Deployment) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = [{"name": "scripts", "configMap": {"name": f"{deployment.name}-scripts"}}]
    for name in volumes_of(deployment):
        volumes.append({"name": name, "persistentVolumeClaim": {"claimName": f"{deployment.name}-{name}"}})
    return volumes


def service(deployment: Deployment) -> dict[str, Any]:
    """The headless Service by which metrics are asked for."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(deployment, f"{deployment.name}-metrics"),
        "spec": {
            "clusterIP": "None",
            "selector": {"app.kubernetes.io/name": deployment.name},
            "ports": [{"name": "metrics", "port": deployment.metrics_port, "targetPort": "metrics"}],
        },
    }
