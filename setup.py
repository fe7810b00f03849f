"""The packages of the distribution; everything else about it stands in pyproject.toml.

``grammar``, ``planner`` and ``udfs`` live at the root and are installed inside ``sqlstream``. The links in
``sqlstream/`` serve the checkout alone: builds do not read them, because an archive of the repository may hold text
files in their place.
"""

from setuptools import find_namespace_packages, setup

ROOMS = ("grammar", "planner", "udfs")


def packages_of(folder: str) -> list[str]:
    """The package in a folder at the root and all packages below it."""
    return find_namespace_packages(include=[folder, f"{folder}.*"], exclude=["*.__pycache__"])


linked = tuple(f"sqlstream.{room}" for room in ROOMS)
own = [name for name in packages_of("sqlstream") if not name.startswith(linked)]
mapped = [f"sqlstream.{name}" for room in ROOMS for name in packages_of(room)]
folders = {f"sqlstream.{room}": room for room in ROOMS}
# dbt looks for adapters in its own package, of which each distribution holds a part.
folders["dbt.adapters.sqlstream"] = "sqlstream/dbt/plugin"
setup(packages=[*own, *mapped, "dbt.adapters.sqlstream"], package_dir=folders)
