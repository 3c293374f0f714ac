"""An object store under virtual time: it loses answers, fails half-way, damages uploads, and shows some late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from ledgers.cold.errors import NoSuchObject, ObjectStoreFailed

from .site import ClusterSite

FAILS_SHARE = 0.05
LOSES_ANSWER_SHARE = 0.05
LATE_SHARE = 0.1
DAMAGE_SHARE = 0.1
LATE_SECONDS = 3.0


@dataclass(slots=True)
class _Upload:
    data: bytearray = field(default_factory=bytearray)

    async def write(self, part: bytes) -> None:
        self.data += part


class VirtualObjects:
    """The objects below one URL, as `ledgers.cold.object_store.Objects`. All clients of a run share what is in it."""

    def __init__(self, site: ClusterSite, url: str) -> None:
        self.url = url
        self._site = site
        self._chance = site.world.stream("object store")

    async def prepare(self) -> None:
        """Nothing: this is not a directory."""

    async def read(self, name: str, start: int, stop: int) -> memoryview:
        async with self._call(name):
            data = self._found(name)[start:stop]
        if len(data) != stop - start:
            raise ObjectStoreFailed(name, f"it ends before byte {stop}")
        return memoryview(data)

    async def read_end(self, name: str, length: int) -> tuple[memoryview, int]:
        async with self._call(name):
            data = self._found(name)
        return memoryview(data)[-length:], len(data)

    async def size(self, name: str) -> int:
        async with self._call(name):
            return len(self._found(name))

    @asynccontextmanager
    async def writing(self, name: str) -> AsyncIterator[_Upload]:
        upload = _Upload()
        yield upload
        async with self._call(name):
            late = LATE_SECONDS if self._goes_wrong(LATE_SHARE) else 0.0
            if self._goes_wrong(DAMAGE_SHARE):
                upload.data[len(upload.data) // 3] ^= 1
            self._site.objects[name] = bytes(upload.data), self._site.loop.time() + late

    async def delete_all(self, key: str) -> int:
        async with self._call(key):
            names = [name for name in self._site.objects if name.startswith(f"{key}/")]
            for name in names:
                del self._site.objects[name]
        return len(names)

    def _found(self, name: str) -> bytes:
        data, shown_at = self._site.objects.get(name, (b"", float("inf")))
        if shown_at > self._site.loop.time():
            raise NoSuchObject(name)
        return data

    def _goes_wrong(self, share: float) -> bool:
        return not self._site.is_calm and self._chance.happens(share)

    @asynccontextmanager
    async def _call(self, name: str) -> AsyncIterator[None]:
        await asyncio.sleep(self._chance.unit() * self._site.pace_seconds)
        if self._goes_wrong(FAILS_SHARE):
            raise ObjectStoreFailed(name, "it answers 503")
        yield
        if self._goes_wrong(LOSES_ANSWER_SHARE):
            raise ObjectStoreFailed(name, "no answer")
