"""``python -m sqlstream`` is the ``sqlstream`` command."""

from sqlstream.cli import main

if __name__ == "__main__":
    main()
