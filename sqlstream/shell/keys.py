"""The keys that are pressed while a query runs: Ctrl-Z is noticed, all others wait for the prompt.

The terminal would make a signal of Ctrl-Z, which stops Spark and whatever has started the shell with it. So the key is
taken from it while somebody listens.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import clear_typeahead, store_typeahead
from prompt_toolkit.keys import Keys

from sqlstream.shell.interrupts import Pressed, remembering, unbroken

_LOOK_SECONDS = 0.1


@contextmanager
def listening(source: Input) -> Iterator[Pressed]:
    """Notices Ctrl-Z and Ctrl-C in the block. What else is typed is not echoed, and kept, but for what stands before
    Ctrl-C."""
    pressed, ended = Pressed(), Event()
    thread = Thread(target=_listen, args=(source, pressed.ctrl_z, ended), name="sqlstream-keys", daemon=True)
    with _keys_one_by_one(source.fileno()), remembering(pressed):
        thread.start()
        try:
            yield pressed
        except KeyboardInterrupt:
            with unbroken():
                clear_typeahead(source)
            raise
        finally:
            with unbroken():
                ended.set()
                thread.join()


def _listen(source: Input, pressed: Event, ended: Event) -> None:
    import select

    while not ended.is_set():
        readable, _, _ = select.select([source.fileno()], [], [], _LOOK_SECONDS)
        if not readable:
            continue
        keys = source.read_keys()
        if any(key.key == Keys.ControlZ for key in keys):
            pressed.set()
        store_typeahead(source, [key for key in keys if key.key != Keys.ControlZ])
        if source.closed:
            return


@contextmanager
def _keys_one_by_one(terminal: int) -> Iterator[None]:
    """Keys come without Enter and echo, Ctrl-Z as a key, Ctrl-C as a signal, whatever the terminal did before."""
    import termios

    before = termios.tcgetattr(terminal)
    changed = termios.tcgetattr(terminal)
    changed[3] &= ~(termios.ICANON | termios.ECHO)
    changed[3] |= termios.ISIG
    changed[6] = [*changed[6]]
    changed[6][termios.VSUSP] = b"\0"  # none
    termios.tcsetattr(terminal, termios.TCSADRAIN, changed)
    try:
        yield
    finally:
        with unbroken():
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)
