"""A ``SparkApplication`` of Kubeflow's Spark operator: a driver that runs the scripts, and executors in pods."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version
from typing import Any

from sqlstream.deploy.container import HOST, SCRIPTS, USER, mounted_scripts
from sqlstream.deploy.deployment import RETRIES, STOP_SECONDS, Deployment
from sqlstream.deploy.kubernetes import metadata, scripts_map, secret_variables, service
from sqlstream.deploy.kubernetes_schema import require_valid
from sqlstream.deploy.spark_submit import program, spark_settings
from sqlstream.yaml_text import yaml_text


def files(deployment: Deployment) -> dict[str, str]:
    """The manifests, the image, the program of the driver and the scripts."""
    made = manifests(deployment)
    for document in made:
        require_valid(document)
    assert deployment.checkpoints is not None, "the command asks for it"
    return {
        f"{deployment.name}.yaml": "---\n".join(map(yaml_text, made)),
        "Dockerfile": dockerfile(deployment),
        "job.py": program(replace(deployment, scripts=mounted_scripts(deployment)), deployment.checkpoints, HOST),
        **{script.name: script.text for script in deployment.scripts},
    }


def manifests(deployment: Deployment) -> list[dict[str, Any]]:
    """The objects, in the order in which they are applied."""
    return [scripts_map(deployment), _application(deployment), service(deployment)]


def dockerfile(deployment: Deployment) -> str:
    """The file that makes the image of driver and executors: Spark's own with the packages of the scripts, which are
    mounted, so that they change without it.
    """
    return f"""FROM apache/spark:{version("pyspark")}-python3
USER root
{deployment.copied_wheels}RUN pip install --no-cache-dir {deployment.requirements}
COPY job.py /opt/sqlstream/job.py
USER {USER}
"""


def _application(deployment: Deployment) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": deployment.name}
    environment = secret_variables(deployment)
    mounts = [{"name": "scripts", "mountPath": SCRIPTS}]
    memory = deployment.memory.removesuffix("i").lower()
    pod = {
        "cores": 1,
        "memory": memory,
        "env": environment,
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "podSecurityContext": {"runAsNonRoot": True, "runAsUser": USER, "fsGroup": USER},
    }
    port = {"name": "metrics", "containerPort": deployment.metrics_port, "protocol": "TCP"}
    scraped = {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(deployment.metrics_port),
        "prometheus.io/path": "/metrics",
    }
    return {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "metadata": metadata(deployment, deployment.name),
        "spec": {
            "type": "Python",
            "pythonVersion": "3",
            "mode": "cluster",
            "sparkVersion": version("pyspark"),
            "image": deployment.image,
            "mainApplicationFile": "local:///opt/sqlstream/job.py",
            "sparkConf": spark_settings(deployment),
            "restartPolicy": {"type": "OnFailure", "onFailureRetries": RETRIES, "onFailureRetryInterval": 10},
            "volumes": [{"name": "scripts", "configMap": {"name": f"{deployment.name}-scripts"}}],
            "driver": {
                **pod,
                "serviceAccount": "spark-operator-spark",
                "labels": labels,
                "annotations": scraped,
                "ports": [port],
                "terminationGracePeriodSeconds": STOP_SECONDS,
                "volumeMounts": mounts,
            },
            "executor": {**pod, "instances": 2, "labels": {**labels, "app.kubernetes.io/component": "executor"}},
        },
    }
