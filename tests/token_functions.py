"""Functions that give tokens for Kafka, as a user writes them: named by options, and called in every process."""

from __future__ import annotations

import base64
import json
import time
from typing import Any


def unsecured(subject: str, seconds: float) -> tuple[str, float]:
    """A token that nobody signs, which Kafka takes for trying things out, and when it expires."""
    now = time.time()
    parts = ({"alg": "none"}, {"sub": subject, "iat": now - 1, "exp": now + seconds})
    text = ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)
    return f"{text}.", now + seconds


def token(config: str) -> tuple[str, float]:
    """One for four seconds, for who is named by ``sasl.oauthbearer.config``."""
    return unsecured(config or "someone", 4)


answers: list[Any] = []
"""What ``scripted`` returns, or raises, one after the other."""
asked: list[str] = []
"""What ``scripted`` was called with."""


def scripted(config: str) -> Any:
    asked.append(config)
    answer = answers.pop(0)
    if isinstance(answer, Exception):
        raise answer
    return answer
