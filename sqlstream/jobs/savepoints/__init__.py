"""Savepoints: self-contained copies of one epoch of a job, from which jobs start anew, elsewhere and changed."""

from sqlstream.jobs.savepoints.create import Manifest, create_savepoint, default_savepoint, read_manifest, require_sink
from sqlstream.jobs.savepoints.restore import restore

__all__ = ["Manifest", "create_savepoint", "default_savepoint", "read_manifest", "require_sink", "restore"]
