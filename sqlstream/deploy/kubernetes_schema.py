"""The schemas of the objects that deployments consist of, as far as we write them, and the check against them.

Kubernetes drops fields that it does not know without a word, or refuses them with ``--validate=strict``. So only the
fields that are listed here may be written, each with its type: ``apps/v1``, ``batch/v1``, ``v1``, ``v1beta2`` of
Spark's operator.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

Check = Any
"""A type, a pattern, a list with the check of its items, a dictionary from field to check (``*``: of any name, ``!``
before a name: it is required), or a set of the texts that are allowed."""

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|[kMGTPE]i?)?")
_JAVA_MEMORY = re.compile(r"[1-9]\d*[kmgt]")
_TEXTS = {"*": str}
_METADATA = {"!name": _NAME, "labels": _TEXTS, "annotations": _TEXTS}
_SECRET = {"secretKeyRef": {"!name": _NAME, "!key": str}}
_ENV = [{"!name": str, "value": str, "valueFrom": _SECRET}]
_MOUNTS = [{"!name": _NAME, "!mountPath": str}]
_VOLUMES = [{"!name": _NAME, "configMap": {"!name": _NAME}, "persistentVolumeClaim": {"!claimName": _NAME}}]
_SECURITY = {"allowPrivilegeEscalation": bool, "capabilities": {"drop": [str]}}
_POD_SECURITY = {"runAsNonRoot": bool, "runAsUser": int, "fsGroup": int}
_PROBE = {
    "!httpGet": {"!path": str, "!port": str}, "timeoutSeconds": int, "periodSeconds": int, "failureThreshold": int,
}  # fmt: skip
_CONTAINER = {
    "!name": _NAME, "image": str, "args": [str], "workingDir": str, "env": _ENV, "volumeMounts": _MOUNTS,
    "ports": [{"name": _NAME, "!containerPort": int}],
    "startupProbe": _PROBE, "readinessProbe": _PROBE, "livenessProbe": _PROBE,
    "resources": {"requests": {"*": _QUANTITY}, "limits": {"*": _QUANTITY}}, "securityContext": _SECURITY,
}  # fmt: skip
_POD = {
    "!containers": [_CONTAINER], "volumes": _VOLUMES, "terminationGracePeriodSeconds": int,
    "securityContext": _POD_SECURITY, "automountServiceAccountToken": bool,
}  # fmt: skip
_SPARK_POD = {
    "cores": int, "memory": _JAVA_MEMORY, "env": _ENV, "labels": _TEXTS, "annotations": _TEXTS,
    "volumeMounts": _MOUNTS, "securityContext": _SECURITY, "podSecurityContext": _POD_SECURITY,
    "ports": [{"!name": _NAME, "!containerPort": int, "!protocol": {"TCP", "UDP"}}],
    "terminationGracePeriodSeconds": int,
}  # fmt: skip

SPECS: Mapping[tuple[str, str], Check] = {
    ("v1", "ConfigMap"): {"!data": _TEXTS},
    ("v1", "PersistentVolumeClaim"): {
        "!spec": {
            "!accessModes": [{"ReadWriteOnce", "ReadWriteMany"}],
            "!resources": {"requests": {"!storage": _QUANTITY}},
            "storageClassName": _NAME,
        }
    },
    ("v1", "Service"): {
        "!spec": {
            "clusterIP": str, "!selector": _TEXTS, "!ports": [{"name": _NAME, "!port": int, "targetPort": str}],
        }
    },
    ("apps/v1", "Deployment"): {
        "!spec": {
            "replicas": int,
            "strategy": {"!type": {"Recreate", "RollingUpdate"}},
            "!selector": {"!matchLabels": _TEXTS},
            "!template": {"!metadata": {"labels": _TEXTS, "annotations": _TEXTS}, "!spec": _POD},
        }
    },
    ("batch/v1", "Job"): {
        "!spec": {
            "backoffLimit": int,
            "!template": {
                "!metadata": {"labels": _TEXTS, "annotations": _TEXTS},
                "!spec": {**_POD, "!restartPolicy": {"OnFailure", "Never"}},
            },
        }
    },
    ("sparkoperator.k8s.io/v1beta2", "SparkApplication"): {
        "!spec": {
            "!type": {"Java", "Python", "Scala", "R"}, "pythonVersion": {"2", "3"}, "mode": {"cluster", "client"},
            "!sparkVersion": str, "image": str, "mainApplicationFile": str, "arguments": [str], "sparkConf": _TEXTS,
            "restartPolicy": {
                "type": {"Never", "Always", "OnFailure"}, "onFailureRetries": int, "onFailureRetryInterval": int,
                "onSubmissionFailureRetries": int, "onSubmissionFailureRetryInterval": int,
            },
            "volumes": _VOLUMES,
            "!driver": {**_SPARK_POD, "serviceAccount": _NAME},
            "!executor": {**_SPARK_POD, "instances": int},
        }
    },
}  # fmt: skip


def require_valid(document: Mapping[str, Any]) -> None:
    """Raises ValueError, which names the field, where an object is not of its schema: a mistake of ours."""
    kind = (str(document.get("apiVersion")), str(document.get("kind")))
    if kind not in SPECS:
        raise ValueError(f"there is no schema of {kind[1]} ({kind[0]})")
    _require({"!apiVersion": str, "!kind": str, "!metadata": _METADATA, **SPECS[kind]}, document, kind[1])


def _require(check: Check, value: Any, at: str) -> None:
    match check:
        case Mapping():
            _require_fields(check, value, at)
        case [item]:
            _require_items(item, value, at)
        case _ if (expected := _unlike(check, value)) is not None:
            raise ValueError(f"{at} is {expected}: {value!r}")


def _unlike(check: Check, value: Any) -> str | None:
    """What a text, number or boolean is not; None where it is right."""
    match check:
        case re.Pattern():
            fits = isinstance(value, str) and check.fullmatch(value) is not None
            return None if fits else f"not like {check.pattern}"
        case set():
            return None if value in check else f"none of {', '.join(sorted(check))}"
    return None if type(value) is check else f"no {check.__name__}"


def _require_items(check: Check, value: Any, at: str) -> None:
    if not isinstance(value, list):
        raise ValueError(f"{at} is no list")
    for number, entry in enumerate(value):
        _require(check, entry, f"{at}[{number}]")


def _require_fields(check: Mapping[str, Check], value: Any, at: str) -> None:
    if not isinstance(value, Mapping):
        raise ValueError(f"{at} is no object")
    known: dict[str, Check] = {name.removeprefix("!"): of for name, of in check.items()}
    lacking: Sequence[str] = [name[1:] for name in check if name.startswith("!") and name[1:] not in value]
    if lacking:
        raise ValueError(f"{at}.{lacking[0]} is required")
    for name, entry in value.items():
        if name not in known and "*" not in known:
            raise ValueError(f"{at}.{name} is no field")
        _require(known.get(name, known.get("*")), entry, f"{at}.{name}")
