"""Files that name the variables of secrets, and never hold their values."""

from __future__ import annotations

from sqlstream.deploy.deployment import Deployment


def variables_file(deployment: Deployment, target: str) -> str:
    """The lines ``NAME=`` of a file of environment variables. ``target``: where it is filled in."""
    if not deployment.variables:
        return "# The scripts refer to no variables.\n"
    lines = [f"# Fill in the values in {target}, which only its owner may read."]
    return "\n".join([*lines, *(f"{name}=" for name in deployment.variables)]) + "\n"
