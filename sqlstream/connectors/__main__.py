"""``python -m sqlstream.connectors NAME …`` prints the documentation of connectors in Markdown."""

from __future__ import annotations

import sys

from sqlstream.connectors import connector
from sqlstream.connectors.reference import section
from sqlstream.errors import SqlStreamError


def main() -> None:
    """Print a section for each name on the command line, or say which name is wrong and exit with 1."""
    try:
        lines = [line for name in sys.argv[1:] for line in section(connector(name))]
    except SqlStreamError as error:
        sys.exit(str(error))
    sys.stdout.write("\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    main()
