"""AdminClients that are garbage while they answer, and that are open when Python ends: neither ends the process."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sqlstream.udfs.kafka import admin

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": "0"}


class Owner:
    """Refers to itself, so that only the garbage collector frees it."""

    def __init__(self) -> None:
        self.itself = self
        self.admin = admin.admin_of(self, NOWHERE)


def run(script: str) -> str:
    """What a process prints that ends well."""
    text = f"import gc, time\nfrom tests.udfs.test_kafka_admin import *\n{script}"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_client_whose_garbage_is_collected_in_its_own_callback_ends_later_in_another_thread():
    printed = run("""if True:
        owner = Owner()
        answer = owner.admin.describe_cluster(request_timeout=0.2)
        answer.add_done_callback(lambda _: print(gc.collect() > 0, len(admin._open), flush=True))
        del owner
        while not answer.done() or not admin._abandoned:
            time.sleep(0.01)
        Owner()
        print(len(admin._open), len(admin._abandoned))""")
    assert printed == "True 1\n1 0\n"


def test_clients_that_are_open_when_python_ends_end_before_it():
    assert run("owner = Owner(); answer = owner.admin.describe_cluster(request_timeout=9); print('end')") == "end\n"


def test_a_closed_client_says_so():
    owner = Owner()
    admin.close(owner.admin)
    admin.close(owner.admin)
    with pytest.raises(RuntimeError, match="closed"):
        owner.admin.list_topics(timeout=1)
