"""What is secret, and how texts are shown: the one place that decides it for tables, settings, scripts and messages.

* ``shown_value`` and ``secret_texts`` split the value of an option by its key: a value is secret unless it is known to
be harmless. A reference to a variable, ``${NAME}``, is shown as it is; the value of the variable is a secret. *
``Secrets`` holds the secrets of some tables and hides them in texts that others, such as servers, have written. *
``shown_script`` hides secrets in SQL text, of which messages show a line.

Imports nothing of the product, because errors and workers use it.
"""

from sqlstream.secrets.options import (
    NO_SECRETS,
    Secrets,
    has_secret_name,
    is_harmless_header,
    is_known,
    may_be_secret,
    option_at,
    secret_texts,
    secrets_of_script,
    shown_script,
    shown_value,
)
from sqlstream.secrets.urls import MASK, REFERENCE, is_clear

__all__ = [
    "MASK",
    "NO_SECRETS",
    "REFERENCE",
    "Secrets",
    "has_secret_name",
    "is_clear",
    "is_harmless_header",
    "is_known",
    "may_be_secret",
    "option_at",
    "secret_texts",
    "secrets_of_script",
    "shown_script",
    "shown_value",
]
