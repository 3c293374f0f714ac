"""Which bookies take the places of failed ones."""

from __future__ import annotations

import random
from collections.abc import Sequence

from bookie.wire import InfoReply
from ledgers.bookie_client import BookieClient
from ledgers.bookies.grpc_bookies import GrpcBookieClient
from ledgers.bookies.replacements import find_replacements
from ledgers.cluster import Cluster
from ledgers.config import ClientConfig
from ledgers.errors import BookieUnavailable
from ledgers.protocol.effects import FindReplacements
from metadata.memory import MemoryStore
from metadata.records.bookie_registry import Registration
from metadata.records.ledger_record import BookieRef
from metadata.records.ledger_store import LedgerStore
from tests.support.aio import run

B1, B2, B3, B4 = (BookieRef(f"b{n}", f"i{n}") for n in (1, 2, 3, 4))
B1_ANEW = BookieRef("b1", "formatted anew")
ENSEMBLE = (B1, B2, B3)


class Answering(GrpcBookieClient):
    """Only these bookies answer; some say that they are read-only."""

    def __init__(self, alive: Sequence[BookieRef], read_only: Sequence[BookieRef]) -> None:
        super().__init__(MemoryStore(), ClientConfig())
        self._alive = alive
        self._read_only = read_only

    async def info(self, bookie: BookieRef) -> InfoReply:
        if bookie not in self._alive:
            raise BookieUnavailable(str(bookie), "silent")
        return InfoReply(
            bookie.bookie_id, bookie.incarnation, "c", "1", 1, 1, 0, 0, 0, bookie in self._read_only
        )


def found(
    registered: Sequence[BookieRef],
    *failed: int,
    alive: Sequence[BookieRef],
    read_only: Sequence[BookieRef] = (),
    in_place: bool = False,
) -> tuple[dict[int, BookieRef], dict[str, str]]:
    async def scenario() -> tuple[dict[int, BookieRef], dict[str, str]]:
        store = MemoryStore()
        for bookie in registered:
            registration = Registration(bookie, f"{bookie.bookie_id}:3181")
            await store.create(registration.key, registration.encode())
        bookies: BookieClient = Answering(alive, read_only)
        cluster = Cluster(store, LedgerStore(store), bookies, ClientConfig(), random.Random(0))
        effect = FindReplacements(ENSEMBLE, dict.fromkeys(failed, "gone"), in_place)
        return await find_replacements(cluster, effect)

    return run(scenario())


def test_a_spare_bookie_is_preferred_to_the_failed_one_that_is_back() -> None:
    assert found([*ENSEMBLE, B4], 0, alive=[*ENSEMBLE, B4])[0] == {0: B4}


def test_a_failed_bookie_that_is_back_takes_its_own_place_where_there_is_no_other() -> None:
    assert found(ENSEMBLE, 0, alive=ENSEMBLE)[0] == {0: B1}


def test_a_bookie_formatted_anew_takes_the_place_of_its_former_self_and_no_other() -> None:
    registered = [B1_ANEW, B2, B3]
    assert found(registered, 0, alive=registered)[0] == {0: B1_ANEW}
    assert found(registered, 1, alive=[B1_ANEW, B3])[0] == {}


def test_in_place_only_the_failed_bookie_itself_is_looked_at() -> None:
    assert found([B1_ANEW, B2, B3, B4], 0, alive=[B1_ANEW, B4], in_place=True)[0] == {}
    assert found([*ENSEMBLE, B4], 0, alive=[B1, B4], in_place=True)[0] == {0: B1}


def test_a_bookie_that_says_it_is_read_only_takes_no_place() -> None:
    """Its registration may not say so yet."""
    chosen, rejected = found([*ENSEMBLE, B4], 0, alive=[B4], read_only=[B4])
    assert (chosen, rejected["b4"]) == ({}, "is read-only")


def test_every_bookie_that_cannot_be_used_is_named_with_the_reason() -> None:
    chosen, rejected = found([*ENSEMBLE, B4], 0, 1, alive=[B2])
    assert chosen == {1: B2}
    assert rejected[str(B4)] == rejected[str(B1)] != ""
    assert rejected["b3"] == "is in the ensemble"
