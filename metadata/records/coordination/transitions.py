"""Changes of a record by compare-and-swap: a transition is applied to the current record, and again after each
conflict."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ...settled_writes import until_changed
from ...version import Version

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Standing(Generic[R]):
    """A record, and the version that a change must specify."""

    record: R
    version: Version


class HeldRecord(ABC, Generic[R]):
    """A record as last read or changed."""

    def __init__(self, found: Standing[R]) -> None:
        self.found = found
        self._turn = asyncio.Lock()  # changes by the same program take turns instead of conflicting

    @property
    def record(self) -> R:
        return self.found.record

    async def refresh(self) -> R:
        """Reads the record again."""
        self.take(await self._read())
        return self.record

    def take(self, found: Standing[R]) -> None:
        """Adopts a version of the record, unless a later one is known."""
        if found.version >= self.found.version:
            self.found = found

    async def change(self, transition: Callable[[R], R]) -> R:
        """Makes one change; returns the current record. If the transition raises, nothing is changed.

        Raises KeepsChanging.
        """

        async def attempt(record: R) -> R:
            wanted = transition(record)
            if wanted != record:
                self.take(await self._replaced(wanted, self.found.version))
            return self.record

        async with self._turn:
            return await until_changed(self.what, self.record, attempt, self.refresh)

    @property
    @abstractmethod
    def what(self) -> str:
        """The record's name in errors."""

    @abstractmethod
    async def _read(self) -> Standing[R]:
        """Reads the record from the store. Raises an error if the record must not be changed."""

    @abstractmethod
    async def _replaced(self, wanted: R, version: Version) -> Standing[R]:
        """Replaces this version of the record. Raises KeyConflict."""
