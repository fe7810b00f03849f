"""A program for ``spark-submit``, and the shell scripts that start and stop it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import replace

from sqlstream.deploy.deployment import Deployment
from sqlstream.deploy.secret_files import variables_file


def files(deployment: Deployment) -> dict[str, str]:
    """The program, the scripts, how it is started and stopped, and the variables of secrets, without values."""
    assert deployment.checkpoints is not None, "the command asks for it"
    return {
        "job.py": program(deployment, deployment.checkpoints),
        "start.sh": _start(deployment),
        "stop.sh": _stop(deployment.checkpoints),
        **{script.name: script.text for script in deployment.scripts},
        "secrets.env": variables_file(deployment, "secrets.env"),
    }


def spark_settings(deployment: Deployment) -> dict[str, str]:
    """The settings that are Spark's own."""
    return {key: value for key, value in deployment.settings.items() if key.startswith("spark.")}


def program(deployment: Deployment, checkpoints: str, more: Mapping[str, str] | None = None) -> str:
    """The program that runs the scripts on the Spark that it is submitted to. ``more``: settings of the target.

    Spark's own settings are those of spark-submit, which has started Spark before the program asks for it.
    """
    spark = spark_settings(deployment)
    own = {key: value for key, value in deployment.settings.items() if key not in spark}
    arguments = replace(deployment, settings=own, master=None).arguments(checkpoints, more)
    return f'''"""Runs the scripts of {deployment.name} on the Spark of spark-submit."""

import sys

from pyspark.sql import SparkSession

from sqlstream.cli import run

ARGUMENTS = {json.dumps(arguments, indent=4)}

SparkSession.builder.getOrCreate()
sys.exit(run(ARGUMENTS))
'''


def _start(deployment: Deployment) -> str:
    conf = [f"--conf {shlex.quote(f'{key}={value}')}" for key, value in spark_settings(deployment).items()]
    options = [f"--master {shlex.quote(deployment.master or 'local[*]')}", f"--name {deployment.name}", *conf]
    lines = " \\\n  ".join(["exec spark-submit", "--deploy-mode client", *options, 'job.py "$@"'])
    return f"""#!/bin/sh
# Starts the jobs of {deployment.name}, which go on from their checkpoints. The driver needs {deployment.requirements}.
set -eu
cd "$(dirname "$0")"
set -a
. ./secrets.env
set +a
{lines}
"""


def _stop(checkpoints: str) -> str:
    return f"""#!/bin/sh
# Stops the jobs after their last epoch, with a savepoint each. A signal would end Spark before the savepoint.
set -eu
exec sqlstream jobs stop --all --dir {shlex.quote(checkpoints)} --savepoint
"""
