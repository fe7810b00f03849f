"""Barriers in plain Python, item by item, as Flink's handlers process them."""

from collections import deque


class Aligning:
    """MODE EXACTLY_ONCE. ``out`` has (row, last aligned barrier) and ("aligned", barrier)."""

    def __init__(self, channels):
        self.channels = channels
        self.newest = self.aligned = self.pending = None
        self.arrived, self.ended = set(), set()
        self.held: deque = deque()
        self.out = []

    def batch(self, items):
        todo = deque(items)
        while todo:
            item = todo.popleft()
            kind, channel, value = item
            if channel in self.arrived:
                self.held.append(item)
                continue
            released = self._take(kind, channel, value)
            if released:
                todo.extendleft(reversed(released))

    def _take(self, kind, channel, value):
        """What is held and goes on now."""
        released = []
        if kind == "row":
            self.out.append((value, self.aligned))
        elif kind == "end":
            self.ended.add(channel)
        elif kind == "cancel":
            if value == self.pending:
                released = self.release()
            elif self.newest is None or value > self.newest:
                released = self.release()
                self.newest = value
        elif value == self.pending:
            self.arrived.add(channel)
        elif self.newest is None or value > self.newest:
            released = self.release()
            self.newest = self.pending = value
            self.arrived = {channel}
        if self.pending is not None and len(self.arrived | self.ended) == self.channels:
            self.aligned = self.pending
            self.out.append(("aligned", self.aligned))
            released += self.release()
        return released

    def release(self):
        released, self.held = list(self.held), deque()
        self.pending, self.arrived = None, set()
        return released

    def time_out(self):
        self.batch(self.release())

    def finish(self):
        self.out += [(value, self.aligned) for kind, _, value in self.release() if kind == "row"]


class Tracking:
    """MODE AT_LEAST_ONCE."""

    def __init__(self, channels, most=50):
        self.channels, self.most = channels, most
        self.newest = self.aligned = None
        self.pending = {}
        self.ended = set()
        self.out = []

    def batch(self, items):
        for kind, channel, value in items:
            if kind == "row":
                self.out.append((value, self.aligned))
                continue
            if kind == "end":
                self.ended.add(channel)
            elif kind == "cancel":
                self.pending = {b: seen for b, seen in self.pending.items() if b > value}
                self.newest = value if self.newest is None else max(self.newest, value)
                continue
            else:
                self._marker(channel, value)
            complete = [b for b, seen in self.pending.items() if len(seen | self.ended) == self.channels]
            if complete:
                self.aligned = max(complete)
                self.out.append(("aligned", self.aligned))
                self.pending = {b: seen for b, seen in self.pending.items() if b > self.aligned}

    def _marker(self, channel, barrier):
        if self.newest is None or barrier > self.newest:
            self.newest = barrier
            self.pending[barrier] = set()
            if len(self.pending) > self.most:
                del self.pending[min(self.pending)]
        if barrier in self.pending:
            self.pending[barrier].add(channel)

    def time_out(self):
        self.pending = {}

    def finish(self):
        pass
