"""Registry of live bookies: registrations under a lease, which expire with the bookie (rule M2)."""

from __future__ import annotations

from .. import keys
from ..errors import BadRecord
from ..store import MetadataStore, list_all
from . import unreadable
from .registration import Registration, decode


async def list_bookies(store: MetadataStore) -> list[Registration]:
    """Every live bookie whose registration can be decoded, by name; read-only ones too."""
    found: list[Registration] = []
    async for item in list_all(store, keys.BOOKIES):
        try:
            found.append(decode(item.key, item.value))
        except BadRecord as error:
            unreadable.skip(error)
    return sorted(found, key=lambda registration: registration.bookie)


async def find_bookie(store: MetadataStore, bookie_id: str) -> Registration | None:
    """The live registration under this name, writable or not. Raises BadRecord for an unreadable one."""
    key = keys.bookie(bookie_id)
    found = await store.get(key)
    return None if found is None else decode(key, found.value)
