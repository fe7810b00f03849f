"""The version that ``dbt --version`` shows."""

from sqlstream.version import __version__ as version

__all__ = ["version"]
