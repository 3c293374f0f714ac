"""The cluster's id and format version, and the cookies of its bookies."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from .. import keys
from ..errors import BadRecord, KeyExists
from ..store import MetadataStore
from . import records_pb2 as pb

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Cookie:
    """A bookie's identity, kept in its data directory and in the metadata; both must agree (rule W7)."""

    cluster_id: str
    bookie_id: str
    incarnation: str

    def encode(self) -> bytes:
        return pb.Cookie(
            format_version=FORMAT_VERSION,
            cluster_id=self.cluster_id,
            bookie_id=self.bookie_id,
            incarnation=self.incarnation,
        ).SerializeToString()

    @classmethod
    def decode(cls, where: str, value: bytes) -> Cookie:
        try:
            message = pb.Cookie.FromString(value)
        except DecodeError as error:
            raise BadRecord(where, str(error)) from error
        if message.format_version != FORMAT_VERSION:
            raise BadRecord(
                where, f"cookie version {message.format_version}; this program knows {FORMAT_VERSION}"
            )
        return cls(message.cluster_id, message.bookie_id, message.incarnation)


async def cluster_id(store: MetadataStore, *, create: bool = False) -> str | None:
    """Reads the cluster's id; with `create`, makes one if there is none yet."""
    found = await store.get(keys.LAYOUT)
    if found is None and create:
        layout = pb.Layout(format_version=FORMAT_VERSION, cluster_id=str(uuid.uuid4()))
        try:
            await store.create(keys.LAYOUT, layout.SerializeToString())
        except KeyExists:  # another bookie was formatted at the same moment: take its layout
            pass
        found = await store.get(keys.LAYOUT)
    return None if found is None else _layout(found.value).cluster_id


def _layout(value: bytes) -> pb.Layout:
    try:
        layout = pb.Layout.FromString(value)
    except DecodeError as error:
        raise BadRecord(keys.LAYOUT, str(error)) from error
    if layout.format_version != FORMAT_VERSION:
        raise BadRecord(
            keys.LAYOUT, f"layout version {layout.format_version}; this program knows {FORMAT_VERSION}"
        )
    return layout


async def read_cookie(store: MetadataStore, bookie_id: str) -> Cookie | None:
    """Reads the cookie that the metadata has for this name."""
    key = keys.cookie(bookie_id)
    found = await store.get(key)
    return None if found is None else Cookie.decode(key, found.value)
