"""Operator requests for a bookie. A request remains in effect until the operator withdraws it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from google.protobuf.message import DecodeError

from .. import keys, settled_writes
from ..errors import BadRecord
from ..records import records_pb2 as pb
from ..records.record_decoding import skip
from ..store import MetadataStore, list_all
from ..version import encode_record

FORMAT_VERSION = 1


class OrderKind(StrEnum):
    """DRAIN: the bookie gets no new entries, and its copies are moved to other bookies. MAINTENANCE: the bookie is
    absent on purpose, and nothing is re-replicated. GIVEN_UP: the bookie is lost for good, and its copies are
    re-created on other bookies at once."""

    DRAIN = "drain"
    MAINTENANCE = "maintenance"
    GIVEN_UP = "given up"


_TO_PB = {OrderKind.DRAIN: pb.DRAIN, OrderKind.MAINTENANCE: pb.MAINTENANCE, OrderKind.GIVEN_UP: pb.GIVEN_UP}
_FROM_PB = {number: kind for kind, number in _TO_PB.items()}


@dataclass(frozen=True, slots=True)
class Order:
    """The request for one bookie. A bookie has at most one request at a time."""

    bookie_id: str
    kind: OrderKind
    since_ms: int


async def list_orders(store: MetadataStore) -> list[Order]:
    """Returns all requests that can be decoded, sorted by bookie name. Raises MetadataError."""
    found = []
    async for item in list_all(store, keys.ORDERS):
        try:
            found.append(_decode(item.key, item.value))
        except BadRecord as error:
            skip(error)
    return found


async def read(store: MetadataStore, bookie_id: str) -> Order | None:
    """Reads the request for one bookie. Raises MetadataError."""
    key = keys.order(bookie_id)
    found = await store.get(key)
    return None if found is None else _decode(key, found.value)


async def give(store: MetadataStore, order: Order) -> None:
    """Sets the request, replacing any earlier one. Raises MetadataError."""
    message = pb.Order(
        format_version=FORMAT_VERSION,
        kind=_TO_PB[order.kind],
        since_ms=order.since_ms,
        nonce=settled_writes.new_nonce(),
    )
    await settled_writes.put(store, keys.order(order.bookie_id), encode_record(message))


async def take_back(store: MetadataStore, bookie_id: str) -> bool:
    """Withdraws the request; returns whether there was one. Raises MetadataError."""
    return await settled_writes.delete(store, keys.order(bookie_id))


def _decode(key: str, value: bytes) -> Order:
    try:
        message = pb.Order.FromString(value)
    except DecodeError as error:
        raise BadRecord(key, str(error)) from error
    if message.format_version != FORMAT_VERSION or message.kind not in _FROM_PB:
        raise BadRecord(
            key,
            f"order kind {message.kind}, format version {message.format_version}; this program supports version "
            f"{FORMAT_VERSION}",
        )
    return Order(key.removeprefix(keys.ORDERS), _FROM_PB[message.kind], message.since_ms)
