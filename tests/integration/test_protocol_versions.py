"""A cluster is upgraded program by program: each connection has the highest version that both ends speak.

Of the data protocol. Version 2 is invented here.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial

import pytest

from bookie.serving.data.data_session import Session
from bookie.serving.request_processor import RequestProcessor
from bookie.wire.data import handshake
from bookie.wire.data.framing import Body, FrameKind
from bookie.wire.data.handshake import ClientHello
from ledgers import NotEnoughBookies
from ledgers.aio import LedgerClient
from ledgers.bookies import dialing
from ledgers.config import ClientConfig
from tests.support.in_process import InProcessCluster, payloads

IMPATIENT = ClientConfig(append_seconds_max=0.3, append_quorum_seconds_max=0.5)


class Versions:
    """`newest`: what each bookie speaks at most, by its name. `chosen`: on its connections so far."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.newest: dict[str, int] = defaultdict(lambda: 1)
        self.chosen: dict[str, set[int]] = defaultdict(set)
        self._patch = patch
        greet, accept = Session._handshake, Session._accept_client

        def handshaken(session: Session, kind: FrameKind, body: Body) -> None:
            requests = session._requests_of()
            assert requests is not None
            with pytest.MonkeyPatch.context() as its:
                its.setattr(handshake, "VERSION_MIN", 1)
                its.setattr(handshake, "VERSION_MAX", self.newest[requests.bookie_id])
                greet(session, kind, body)

        def accepted(session: Session, requests: RequestProcessor, version: int) -> None:
            self.chosen[requests.bookie_id].add(version)
            accept(session, requests, version)

        patch.setattr(Session, "_handshake", handshaken)
        patch.setattr(Session, "_accept_client", accepted)

    def highest(self) -> dict[str, int]:
        """Of those that were chosen. Bookies are clients of each other, too, and may have connected before."""
        return {name: max(chosen) for name, chosen in self.chosen.items()}

    def clients_speak(self, oldest: int, newest: int) -> None:
        """Those that connect from here on."""
        self._patch.setattr(handshake, "VERSION_MIN", oldest)
        self._patch.setattr(handshake, "VERSION_MAX", newest)
        self._patch.setattr(dialing, "ClientHello", partial(ClientHello, oldest, newest))


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> Versions:
    return Versions(monkeypatch)


async def test_bookies_are_upgraded_one_by_one_under_a_writer_and_then_its_client(
    versions: Versions, cluster: InProcessCluster, client: LedgerClient
) -> None:
    writer = await client.create_ledger()
    await writer.append(b"before")
    for name in ("b1", "b2", "b3"):
        await cluster.stop(name)
        versions.newest[name] = 2
        await cluster.start(name)
        await writer.append(name.encode())
    assert versions.highest() == {"b1": 1, "b2": 1, "b3": 1}

    versions.clients_speak(1, 2)
    async with LedgerClient(cluster.uri) as upgraded:
        assert await payloads(await upgraded.open_ledger(writer.ledger_id)) == [
            b"before",
            b"b1",
            b"b2",
            b"b3",
        ]
        async with await upgraded.create_ledger() as after:
            await after.append(b"after")
    assert versions.highest() == {"b1": 2, "b2": 2, "b3": 2}


async def test_a_client_that_was_upgraded_first_speaks_to_each_bookie_what_that_one_speaks(
    versions: Versions, cluster: InProcessCluster
) -> None:
    versions.newest["b1"] = 2
    versions.clients_speak(1, 2)
    async with LedgerClient(cluster.uri) as upgraded, await upgraded.create_ledger() as writer:
        await writer.append(b"a")
    assert versions.highest() == {"b1": 2, "b2": 1, "b3": 1}


async def test_a_client_that_speaks_only_a_newer_version_is_refused_in_words(
    versions: Versions, cluster: InProcessCluster
) -> None:
    versions.clients_speak(2, 2)
    async with LedgerClient(cluster.uri, config=IMPATIENT) as newer:
        with pytest.raises(NotEnoughBookies, match="was offered 2 to 2: run programs of one version"):
            await newer.create_ledger()
