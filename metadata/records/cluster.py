"""The cluster's id and format version, the cookies of its bookies, and the registered bookies (rule M2)."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from .. import keys
from ..errors import BadRecord, KeyExists
from ..store import MetadataStore, list_all
from . import records_pb2 as pb
from . import registration
from .record_decoding import parse_record, skip
from .registration import Registration

FORMAT_VERSION = 1

PREDECESSORS_MAX = 32
"""Maximum number of earlier incarnations recorded in a cookie. A backup is still recognized as older if the bookie has
been formatted up to this many times since the backup was made."""


@dataclass(frozen=True, slots=True)
class Cookie:
    """A bookie's identity, kept in its data directory and in the metadata; both must agree (rule W7).

    `predecessors`: the earlier incarnations of this name, in order, the latest last. Metadata that contains a
    predecessor's cookie is older than the directory.
    """

    cluster_id: str
    bookie_id: str
    incarnation: str
    predecessors: tuple[str, ...] = field(default=(), compare=False)

    @property
    def names(self) -> dict[str, str]:
        """The fields of a cookie that commands print, by name."""
        return {
            "cluster_id": self.cluster_id,
            "bookie_id": self.bookie_id,
            "incarnation": self.incarnation,
        }

    @property
    def line(self) -> tuple[str, ...]:
        """The predecessors of the next incarnation: this cookie's predecessors, followed by its own incarnation."""
        return (*self.predecessors, self.incarnation)[-PREDECESSORS_MAX:]

    def encode(self) -> bytes:
        return pb.Cookie(
            format_version=FORMAT_VERSION,
            cluster_id=self.cluster_id,
            bookie_id=self.bookie_id,
            incarnation=self.incarnation,
            predecessors=self.predecessors,
        ).SerializeToString()

    @classmethod
    def decode(cls, where: str, value: bytes) -> Cookie:
        message = parse_record(pb.Cookie, where, value, FORMAT_VERSION, "cookie")
        return cls(message.cluster_id, message.bookie_id, message.incarnation, tuple(message.predecessors))


async def cluster_id(store: MetadataStore, *, create: bool = False) -> str | None:
    """Reads the cluster's id; with `create`, creates one if there is none yet."""
    found = await store.get(keys.LAYOUT)
    if found is None and create:
        try:
            await store.create(keys.LAYOUT, encode_layout(str(uuid.uuid4())))
        except KeyExists:  # another bookie was formatted at the same moment: use its layout
            pass
        found = await store.get(keys.LAYOUT)
    return (
        None
        if found is None
        else parse_record(pb.Layout, keys.LAYOUT, found.value, FORMAT_VERSION, "layout").cluster_id
    )


def encode_layout(cluster_id: str) -> bytes:
    """Encodes the value of `layout`."""
    return pb.Layout(format_version=FORMAT_VERSION, cluster_id=cluster_id).SerializeToString()


async def read_cookie(store: MetadataStore, bookie_id: str) -> Cookie | None:
    """Reads the cookie of the bookie with this name from the metadata."""
    key = keys.cookie(bookie_id)
    found = await store.get(key)
    return None if found is None else Cookie.decode(key, found.value)


async def list_cookies(store: MetadataStore) -> list[Cookie]:
    """Returns the cookies of all formatted bookies, sorted by name, omitting those that cannot be decoded. Raises
    MetadataError."""
    found = []
    async for item in list_all(store, keys.COOKIES):
        try:
            found.append(Cookie.decode(item.key, item.value))
        except BadRecord as error:
            skip(error)
    return found


async def list_bookies(store: MetadataStore) -> list[Registration]:
    """Returns every live bookie whose registration can be decoded, including read-only ones, sorted by name."""
    found: list[Registration] = []
    async for item in list_all(store, keys.BOOKIES):
        try:
            found.append(registration.decode(item.key, item.value))
        except BadRecord as error:
            skip(error)
    return sorted(found, key=lambda one: one.bookie)


async def revision_of(store: MetadataStore) -> int:
    """Returns the store's current revision: every later read shows all changes up to this revision."""
    return (await store.list_page(keys.BOOKIES, limit=1)).revision


async def find_bookie(store: MetadataStore, bookie_id: str) -> Registration | None:
    """Returns the live registration under this name, writable or not. Raises BadRecord for an unreadable one."""
    key = keys.bookie(bookie_id)
    found = await store.get(key)
    return None if found is None else registration.decode(key, found.value)
