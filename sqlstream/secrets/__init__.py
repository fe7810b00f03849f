"""What is secret, and how a text is shown: the one place that decides it for tables, settings, scripts and messages.

* ``shown_value`` and ``secret_texts`` take the value of an option apart by its key: what is not known to be harmless
  is a secret. A reference to a variable, ``${NAME}``, is shown as it stands; what the variable holds is a secret.
* ``Secrets`` holds the secrets of some tables and hides them in texts that others have written, such as servers.
* ``shown_script`` hides secrets in SQL text, of which messages show a line.

Imports nothing of the product, because errors and workers need it, too.
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
