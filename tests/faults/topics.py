"""Jobs over topics of Kafka at random moments of brokers, a registry and the jobs themselves.

``python -m tests.faults.topics --strikes 30``. Three brokers and a registry of its own
serve three jobs in one process: copies, windows and records of Avro, each written by transactions. They log in by
tokens that expire every few seconds. Messages come from
strike to strike. Whenever a job has failed it is started again; in the end what readers of committed messages see must
be what undisturbed jobs have written. Where a message cannot be read, messages are gone, or the registry is away, the
job fails with a hint what to do, which is then done.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import pyarrow as pa

from sqlstream.errors import SqlStreamError
from sqlstream.testing.kafka_broker import Broker, BrokerError, kafka_jars
from tests.faults.compare import difference
from tests.faults.inject import RESTARTS, Siege
from tests.faults.kafka_cluster import TOKEN_SECONDS, Servers, running_servers
from tests.faults.processes import descendants
from tests.faults.report import Outcome, Report
from tests.faults.running import deadline
from tests.faults.struck import Records
from tests.faults.topic_fleet import KINDS, TOPICS, TopicFleet

FAULTS: Mapping[str, int] = {
    "driver": 6, "worker": 4, "broker stop": 4, "broker kill": 4, "leader": 3, "slow broker": 2, "tokens": 1,
    "partitions": 2, "registry": 2, "poison": 1, "recreated": 1,
}  # fmt: skip
"""How many of thirty strikes are of each kind. The last two change how the tables are declared from then on."""

THIRTY = sum(FAULTS.values())
_HINTED = ("poison", "recreated", "registry")
ROWS_PER_STRIKE = 300
_LONGEST_SECONDS = 15.0
"""Brokers and jobs stand still for no longer."""


class TopicSiege(Siege):
    """Strikes jobs over topics, and what they read and write."""

    def __init__(self, fleet: TopicFleet, chance: random.Random) -> None:
        super().__init__(fleet, chance)
        self._topics = fleet
        self._servers = fleet.servers

    def _strike(self, fault: str) -> None:
        match fault:
            case "broker stop":
                self._servers.restart(Broker.stop, self._chance)
            case "broker kill":
                self._servers.restart(Broker.kill, self._chance)
            case "leader":
                self._change_leaders()
            case "slow broker":
                self._servers.stand_still(self._chance.uniform(1, _LONGEST_SECONDS), self._chance)
            case "tokens":
                self._suspend_jobs()
            case "partitions":
                self._topics.add_partition()
            case "registry":
                self._servers.registry.away = sys.maxsize
                self._start_and_fail("goes on without a registry", ["others"])
                self._servers.registry.away = 0
            case "poison":
                self._poison()
            case "recreated":
                self._recreate()
            case _:
                super()._strike(fault)

    def _wait_for_epochs(self) -> None:
        """As of any job, unless one has nothing to do any more."""
        before = {kind: self._fleet.epoch(kind) for kind in self.records.living}

        def is_further(kind: str) -> bool:
            return self._fleet.epoch(kind) > before[kind] or self._topics.has_written_all(kind)

        self._tend_until(lambda: all(map(is_further, self.records.living)))

    def _change_leaders(self) -> None:
        """Kill a broker, and start it again only when others lead its partitions, and jobs have got on with these."""
        number = self._chance.randrange(1, len(self._servers.brokers))  # not the controller, which elects
        broker = self._servers.brokers[number]
        broker.kill()
        self._tend_until(lambda: number + 1 not in self._topics.leaders())
        self._wait_for_epochs()
        broker.start()

    def _suspend_jobs(self) -> None:
        """All their processes stand still, until the tokens by which they have logged in have expired."""
        pids = [self._fleet.pid, *(process.pid for process in descendants(self._fleet.pid))]
        for sent in (signal.SIGSTOP, signal.SIGCONT):
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, sent)
            if sent is signal.SIGSTOP:
                time.sleep(self._chance.uniform(TOKEN_SECONDS, _LONGEST_SECONDS))

    def _poison(self) -> None:
        """A message that cannot be read: jobs fail, and say where it is and what lets them go on."""
        for topic in TOPICS:
            self._topics.send(topic, b"no such format", 0)
        self._topics.flush()
        self._start_and_fail("goes on behind a message that cannot be read", self._topics.kinds)
        self._allow("on-error", "skip")

    def _recreate(self) -> None:
        """Delete the topics that are read and make them again: jobs fail, and say what lets them go on. All has been
        written before, so nothing is lost.
        """
        self._tend_until(lambda: all(map(self._topics.has_written_all, self.records.living)))
        self._fleet.kill()
        self._topics.delete()
        self._topics.create()
        self._start_and_fail("goes on with another topic of the same name", self._topics.kinds)
        self._allow("on-data-loss", "skip")

    def _allow(self, option: str, value: str) -> None:
        self._topics.more[option] = value
        self._topics.declare()

    def _start_and_fail(self, otherwise: str, kinds: Iterable[str]) -> None:
        """Start the jobs without a restart strategy, and wait until those of the kinds have failed."""
        self._fleet.start()
        for kind in self.records.living:
            self.records.states[kind] = "asked"
        self._fleet.ask({RESTARTS: "none"}, self.records.living)
        until, failing = deadline(), {*kinds} & {*self.records.living}
        while failing & {*self.records.in_state("running", "asked")} and self._fleet.lives:
            self._hear()
            if time.monotonic() > until:
                for kind in failing & {*self.records.in_state("running", "asked")}:
                    self.records.of(kind, self.records.fault).unclear.append(otherwise)
                return


# --- the whole ---------------------------------------------------------------------------------------------------


def planned(strikes: int, chance: random.Random) -> list[str]:
    """So many faults in any order: of each its share of thirty, or at least one as far as they go."""
    whole = [fault for fault, count in FAULTS.items() for _ in range(count)]
    chosen = whole if strikes >= THIRTY else [*FAULTS, *chance.sample(whole, THIRTY)][:strikes]
    return chance.sample(chosen, len(chosen))


def topics_hold(folder: Path, strikes: Sequence[str], chance: random.Random, say: Callable[[str], None]) -> bool:
    """Strikes jobs over topics. Whether all rows are there in the end, each once, and all failures said what to do."""
    try:
        kafka_jars()
    except (BrokerError, SqlStreamError) as error:
        say(f"topics: not tried, {error}")
        return False
    folder.mkdir(parents=True, exist_ok=True)
    total = ROWS_PER_STRIKE * (len(strikes) + 1)
    with running_servers(folder / "brokers") as servers:
        fleet_of = partial(_fleet, servers=servers, total=total)
        calm = fleet_of(folder / "calm", prefix="calm")
        expected = _undisturbed(calm)
        struck = fleet_of(folder / "struck", prefix="struck")
        title = f"{total:,} messages a topic, {len(strikes)} strikes."
        report = Report(folder / "table.txt", argparse.Namespace(rows=total, files=0, seed=0), title)
        struck.prepare()
        siege = TopicSiege(struck, chance)
        siege.run(strikes, lambda number: report.on_strike(siege.records, strikes, number))
        for kind in struck.kinds:
            stuck = siege.records.states[kind] == "stuck"
            how = None if stuck else difference(expected[kind][kind], struck.rows(kind)[kind])
            report.add(siege.records, strikes, kind, Outcome(how, stuck=stuck))
    report.end()
    unhelpful = _unhelpful(siege.records)
    for message in unhelpful:
        say(f"topics: no word of what to do: {message}")
    say(f"topics: {len(strikes)} strikes, {struck.starts} starts")
    return report.holds and not unhelpful


def _fleet(folder: Path, servers: Servers, prefix: str, total: int) -> TopicFleet:
    return TopicFleet(tuple(KINDS), folder, folder, "local[2]", servers=servers, prefix=prefix, total=total)


def _undisturbed(fleet: TopicFleet) -> dict[str, dict[str, pa.Table]]:
    fleet.prepare()
    siege = TopicSiege(fleet, random.Random(0))
    siege.run([])
    if stuck := siege.records.in_state("stuck"):
        raise SystemExit(f"{stuck}: undisturbed jobs failed; see {fleet.log}")
    return {kind: fleet.rows(kind) for kind in fleet.kinds}


def _unhelpful(records: Records) -> list[str]:
    """Messages of failures that somebody has to mend, and that say not how."""
    of_hinted = (struck.failed for (_, fault), struck in records.struck.items() if fault in _HINTED)
    return [message for messages in of_hinted for message in messages if "HINT: " not in message]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Faults of Kafka, of a registry and of jobs over topics.")
    parser.add_argument("--strikes", type=int, default=THIRTY, help="how many (default: %(default)s)")
    parser.add_argument("--faults", type=lambda text: text.split(","), help="these in this order instead")
    parser.add_argument("--seed", type=int, default=random.randrange(10_000), help="repeats a run")
    parser.add_argument("--folder", type=Path, help="where all is kept")
    chosen = parser.parse_args(arguments)
    chance = random.Random(f"{chosen.seed}/topics")
    folder = chosen.folder or Path(tempfile.mkdtemp(prefix="sqlstream-topics-"))
    print(f"seed {chosen.seed}; {folder}", flush=True)
    strikes = chosen.faults or planned(chosen.strikes, chance)
    return 0 if topics_hold(folder, strikes, chance, partial(print, flush=True)) else 1


if __name__ == "__main__":
    sys.exit(main())
