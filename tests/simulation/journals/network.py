"""How a client's calls get to an acceptor: straight away in its own process, or over a network that loses things."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any, Protocol

from qjm_compat.errors import JournalError, JournalUnavailable
from qjm_compat.requests import Request
from tests.simulation.engine.chance import key_of

from .followers import Reply
from .plan import DROP, LATE, TWICE, Cut, Plan, Tamper
from .server import Server
from .site import Host, Site, exponential, numbered, salted

ANSWER_SECONDS_MAX = 15.0
"""A call that is not answered is given up."""

LATE_SECONDS_MIN, LATE_SECONDS_MAX = 3.0, 40.0


def _late(bits: int) -> float:
    return LATE_SECONDS_MIN + (LATE_SECONDS_MAX - LATE_SECONDS_MIN) * salted(bits, 2)


class Line(Protocol):
    """A client's way to one acceptor."""

    def call(self, request: Request[Any], reply: Reply) -> None: ...

    def close(self) -> None: ...


class Daemon:
    """The process of an acceptor; a new one comes up with an empty memory."""

    def __init__(self, site: Site, host: Host, start: Any) -> None:
        self.host = host
        self._start = start
        self.server: Server = start()

    def come_up(self) -> None:
        self.host.is_up = True
        self.server = self._start()


class Network:
    """Decides each message by who sends it, of what kind, and which of them it is."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._plan: Plan = site.plan
        self._sent: Counter[tuple[str, str, str]] = Counter()
        self._cuts = [fault for fault in site.plan.faults if isinstance(fault, Cut)]
        self._tampers = {
            (f.kind, f.source, f.target, f.nth): f.how for f in site.plan.faults if isinstance(f, Tamper)
        }
        self._keys: dict[tuple[str, str, str], int] = {}
        self.messages: list[tuple[str, str, str, int]] = []

    def delays(self, kind: str, source: str, target: str) -> tuple[tuple[float, bool], ...]:
        """How long the message takes, and whether others may overtake it; nothing where it is lost."""
        link = (kind, source, target)
        self._sent[link] += 1
        nth = self._sent[link]
        key = self._keys.get(link)
        if key is None:
            key = self._keys[link] = key_of(self._plan.seed, *link)
        bits = numbered(key, nth)
        delay = exponential(bits)
        if self._site.is_calm:
            return ((delay, False),)
        how = self._tampers.get((*link, nth)) if self._tampers else None
        if not self._plan.figures.twice and not self._plan.figures.late:
            self.messages.append((*link, nth))
        return self._troubled(kind, source, target, bits, delay, how)

    def _troubled(
        self, kind: str, source: str, target: str, bits: int, delay: float, how: str | None
    ) -> tuple[tuple[float, bool], ...]:
        figures = self._plan.figures
        if (
            how == DROP
            or (figures.loss and salted(bits, 1) < figures.loss)
            or (self._cuts and self._is_cut(kind, source, target))
        ):
            self._site.note("lost: %s from %s to %s", kind, source, target)
            return ()
        if how == LATE or (figures.late and salted(bits, 3) < figures.late):
            return ((delay + _late(bits), True),)
        if how == TWICE or (figures.twice and salted(bits, 4) < figures.twice):
            return ((delay, False), (delay + _late(bits), True))
        return ((delay, False),)

    def _is_cut(self, kind: str, source: str, target: str) -> bool:
        now = self._site.now
        for cut in self._cuts:
            if cut.at <= now < cut.at + cut.seconds and (
                (cut.source or source) == source
                and (cut.target or target) == target
                and (cut.kind or kind) == kind
            ):
                return True
        return False


class RemoteLine:
    """One connection after the other to a daemon. Messages keep their order, but for those that come late."""

    def __init__(self, site: Site, network: Network, client: Host, daemon: Daemon) -> None:
        self._site = site
        self._network = network
        self._client = client
        self._daemon = daemon
        self._open: dict[int, Reply] = {}
        self._calls = 0
        self._arrives_at = 0.0
        self._is_watching = -1

    def call(self, request: Request[Any], reply: Reply) -> None:
        self._calls += 1
        call = self._calls
        self._open[call] = reply
        if not self._daemon.host.is_up:
            self._site.within(self._client, 1.0, self._failed, call, "refused")
            return
        self._watch()
        kind = type(request).__name__
        deliveries = self._network.delays(kind, self._client.name, self._daemon.host.name)
        if not deliveries or deliveries[0][0] > ANSWER_SECONDS_MAX:
            self._site.within(self._client, ANSWER_SECONDS_MAX, self._failed, call, "no answer")
        for delay, may_be_overtaken in deliveries:
            at = self._site.now + delay
            if not may_be_overtaken:
                at = self._arrives_at = max(at, self._arrives_at + 1e-6)
            self._site.within(self._daemon.host, at - self._site.now, self._arrived, call, request)

    def close(self) -> None:
        """Nobody waits for answers any more; what was sent arrives."""
        self._open.clear()

    def _watch(self) -> None:
        """When the daemon dies the connection breaks, and what is open on it with it."""
        host = self._daemon.host
        if self._is_watching != host.life:
            self._is_watching = host.life
            host.died.append(self._broken)

    def _broken(self) -> None:
        for call in self._open:
            self._site.within(self._client, 0.5, self._failed, call, "the connection broke")

    def _arrived(self, call: int, request: Request[Any]) -> None:
        self._daemon.server.receive(request, partial(self._answered, call, type(request).__name__))

    def _answered(self, call: int, kind: str, answer: Any, error: JournalError | None) -> None:
        if call not in self._open:
            return
        deliveries = self._network.delays(f"{kind} reply", self._daemon.host.name, self._client.name)
        if not deliveries or deliveries[0][0] > ANSWER_SECONDS_MAX:
            self._site.within(self._client, ANSWER_SECONDS_MAX, self._failed, call, "no answer")
        else:
            self._site.within(self._client, deliveries[0][0], self._over, call, answer, error)

    def _failed(self, call: int, why: str) -> None:
        self._over(call, None, JournalUnavailable(f"{self._daemon.host.name}: {why}"))

    def _over(self, call: int, answer: Any, error: JournalError | None) -> None:
        reply = self._open.pop(call, None)
        if reply is not None:
            reply(answer, error)


class LocalLine:
    """An acceptor in the client's own process."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def call(self, request: Request[Any], reply: Reply) -> None:
        self.server.receive(request, reply)

    def close(self) -> None:
        self.server.close()
