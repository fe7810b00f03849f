"""Three brokers of Kafka with a registry beside them, whose jobs log in by tokens that expire after seconds.

All partitions are on all brokers, so one may be away at a time. The first broker is also the controller, without which
no leader is elected.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlstream.testing.kafka_broker import Broker, running_broker
from tests.schema_registry import TestRegistry, serving
from tests.server_places import free_ports

BROKERS = 3
TOKEN_SECONDS = 5
_LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
LOGIN = (
    "'properties.security.protocol' = 'SASL_PLAINTEXT', 'properties.sasl.mechanism' = 'OAUTHBEARER', "
    f"'properties.sasl.jaas.config' = '{_LOGIN} unsecuredLoginStringClaim_sub=\"job\" "
    f'unsecuredLoginLifetimeSeconds="{TOKEN_SECONDS}";\''
)
"""Options of a table that logs in."""

_HOST = "127.0.0.1"


@dataclass(frozen=True)
class Servers:
    """What jobs depend on. ``logins``: the brokers' addresses for those who log in."""

    brokers: tuple[Broker, ...]
    logins: str
    registry: TestRegistry

    @property
    def address(self) -> str:
        """The brokers' addresses for the test itself, which does not log in."""
        return ",".join(broker.address for broker in self.brokers)

    def restart(self, end: Callable[[Broker], None], chance: random.Random) -> None:
        """Ends one broker, and starts it a moment later."""
        broker = chance.choice(self.brokers)
        end(broker)
        time.sleep(chance.uniform(0, 3))
        broker.start()

    def stand_still(self, seconds: float, chance: random.Random) -> None:
        """One broker answers nothing for a while, and loses no connection."""
        broker = chance.choice(self.brokers)
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            os.kill(broker.pid, signal.SIGCONT)


@contextmanager
def running_servers(folder: Path) -> Iterator[Servers]:
    with ExitStack() as stack:
        registry = stack.enter_context(serving())
        controller, *ports = free_ports(1 + 2 * BROKERS)
        opened, logins = ports[:BROKERS], ports[BROKERS:]
        brokers = [
            stack.enter_context(
                running_broker(folder / str(number), port, _properties(number, controller, port, login))
            )
            for number, (port, login) in enumerate(zip(opened, logins, strict=True), 1)
        ]
        yield Servers(tuple(brokers), ",".join(f"{_HOST}:{port}" for port in logins), registry)


def _properties(number: int, controller: int, opened: int, login: int) -> dict[str, str]:
    listeners = f"PLAINTEXT://{_HOST}:{opened},SASL_PLAINTEXT://{_HOST}:{login}"
    leads = number == 1
    of_listener = "listener.name.sasl_plaintext.oauthbearer"
    replicated = {
        f"{topic}.replication.factor": str(BROKERS)
        for topic in ("default", "offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
    }
    return {
        "node.id": str(number),
        "process.roles": "broker,controller" if leads else "broker",
        "listeners": f"{listeners},CONTROLLER://{_HOST}:{controller}" if leads else listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map":
            "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "controller.quorum.bootstrap.servers": f"{_HOST}:{controller}",
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        "replica.lag.time.max.ms": "3000",
        "min.insync.replicas": "2",
        "transaction.state.log.min.isr": "2",
        **replicated,
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{of_listener}.sasl.jaas.config": f'{_LOGIN} unsecuredLoginStringClaim_sub="broker";',
        f"{of_listener}.connections.max.reauth.ms": str(TOKEN_SECONDS * 1000),
    }  # fmt: skip
