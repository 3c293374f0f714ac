"""Those who hold a key under a lease, as tests take it, keep it, and give it up."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod

from bookie.serving.bookie_registration import Registrar
from ledgers.elections.place import Place
from metadata.leases.held_key import HeldKey
from metadata.leases.held_name import HeldName
from metadata.records.coordination.candidates import CandidateStore
from metadata.records.journal_node import JournalNodeRecord
from metadata.records.ledger_record import BookieRef
from metadata.records.registration import Registration
from metadata.store import MetadataStore
from qjm_compat.hadoop.server.lease import NameLease
from tests.support.aio import cancel


class Holder(ABC):
    """One that holds a key, or wants to."""

    @property
    @abstractmethod
    def held(self) -> HeldKey:
        """The key, once it was asked for."""

    @abstractmethod
    async def take(self) -> None:
        """Asks for the key once, and keeps it from then on. Raises MetadataError."""

    async def renew(self) -> None:
        """Has the next renewal come now."""
        self.held.changed.set()

    async def end(self) -> None:
        """Gives it up."""
        await self.held.give_up()


class KeepingHolder(Holder):
    """One with a loop that keeps the key."""

    keeping: asyncio.Task[None] | None = None

    async def end(self) -> None:
        if self.keeping is not None:
            await cancel(self.keeping)
        await super().end()


class NameHolder(KeepingHolder):
    def __init__(self, name: HeldName) -> None:
        self.name = name

    @property
    def held(self) -> HeldKey:
        return self.name.held

    async def take(self) -> None:
        await self.name.take()
        self.keeping = asyncio.create_task(self.name.keep())


class PlaceHolder(Holder):
    place: Place

    def __init__(self, store: MetadataStore, lease_seconds: float) -> None:
        self._candidates = CandidateStore(store, "elections/scheduler")
        self._lease_seconds = lease_seconds

    @property
    def held(self) -> HeldKey:
        return self.place._held

    async def take(self) -> None:
        self.place = await Place.take(self._candidates, "me", self._lease_seconds)

    async def end(self) -> None:
        await self.place.leave("the test is over")


class ClaimHolder(KeepingHolder):
    def __init__(self, held: HeldKey) -> None:
        self._held = held

    @property
    def held(self) -> HeldKey:
        return self._held

    async def take(self) -> None:
        await self._held.take()
        self.keeping = asyncio.create_task(self._held.keep())


def registrar(store: MetadataStore, lease_seconds: float) -> Holder:
    made = Registration(BookieRef("b1", "i1"), "host:3181", "rack-1")
    return NameHolder(Registrar(store, made, lease_seconds, lock_identity=b"k" * 32))


def name_lease(store: MetadataStore, lease_seconds: float) -> Holder:
    record = JournalNodeRecord("j1", "host:8485", "host:8480", b"this run")
    return NameHolder(NameLease(store, record, lease_seconds))


def candidate(store: MetadataStore, lease_seconds: float) -> Holder:
    return PlaceHolder(store, lease_seconds)
