"""The interactive shell: ``sqlstream shell``. The prompt stands before most of the product is imported."""

UNREADABLE_FILE = "SS544"
GREETING = 'sqlstream: statements end with ";". "help" tells more, Ctrl-D leaves.'
