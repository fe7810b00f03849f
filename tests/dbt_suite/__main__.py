"""dbt's own suite for adapters, in an environment of its own: ``python -m tests.dbt_suite [arguments of pytest]``.

dbt asks for another protobuf than ours, so its packages are in ``.venv-dbt`` (``DBT_VENV``), which is made at first;
everything else comes from the environment that runs this. The adapter is that of this checkout.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
REQUIREMENTS = HERE / "requirements.txt"


def folder() -> Path:
    """The folder of the environment."""
    return Path(os.environ.get("DBT_VENV", ROOT / ".venv-dbt")).absolute()


def is_made(environment: Path) -> bool:
    """True where it has what the requirements ask for."""
    mark = environment / ".made"
    return mark.is_file() and mark.read_text(encoding="utf-8") == REQUIREMENTS.read_text(encoding="utf-8")


def make(environment: Path) -> None:
    """Make the environment, or make it anew where the requirements have changed."""
    if is_made(environment):
        return
    print(f"Setting up {environment} (once; downloads about 30 MB)", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(environment)], check=True)
    pip = [str(environment / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-r", str(REQUIREMENTS)], check=True)
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "zz_packages_of_sqlstream.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    (environment / ".made").write_text(REQUIREMENTS.read_text(encoding="utf-8"), encoding="utf-8")


def run(arguments: list[str], environment: Path, *, cwd: Path | None = None) -> int:
    """Run Python in the environment, with this checkout and its adapter for dbt. Returns the exit status."""
    with tempfile.TemporaryDirectory() as name:
        adapters = Path(name) / "dbt" / "adapters"
        adapters.mkdir(parents=True)
        (adapters / "sqlstream").symlink_to(ROOT / "sqlstream/dbt/plugin")
        variables = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{name}", "DO_NOT_TRACK": "1"}
        command = [str(environment / "bin/python"), *arguments]
        return subprocess.run(command, env=variables, cwd=cwd, check=False).returncode


if __name__ == "__main__":
    make(folder())
    suite = [f"-c{HERE / 'pytest.ini'}", f"--confcutdir={HERE}", str(HERE / "adapter_suite.py")]
    with tempfile.TemporaryDirectory() as working:
        suite += ["--rootdir", working]  # where dbt writes its logs
        sys.exit(run(["-m", "pytest", *suite, *sys.argv[1:]], folder(), cwd=Path(working)))
