"""The version of sqlstream, apart from the package itself, so that modules which name it import nothing else."""

__version__ = "0.1.0"
