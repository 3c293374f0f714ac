"""Registration record of a live bookie: address, fault domain, free space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from google.protobuf.message import DecodeError

from .. import keys
from ..errors import BadRecord
from . import records_pb2 as pb
from .ledger_record import BookieRef

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Registration:
    """A live bookie: its identity, its address, and its fault domain, which other bookies may share.

    If `heals` is False, the bookie leaves the re-replication of ledgers to other bookies. Disk sizes are updated when
    they have changed considerably. A value of 0 or "" means that the bookie's program did not report one.

    `reading_key`: the public key that authenticates it as a bookie when it copies ledgers with a password. `problems`:
    problems that only the bookie can detect, by the name of the fact (`metadata/counting/facts`).
    """

    bookie: BookieRef
    address: str
    fault_domain: str = ""
    writable: bool = True
    session: bytes = b""
    disk_bytes_total: int = 0
    disk_bytes_free: int = 0
    version: str = ""
    heals: bool = True
    reading_key: bytes = b""
    problems: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def key(self) -> str:
        return keys.bookie(self.bookie.bookie_id)

    @property
    def outline(self) -> Registration:
        """The part of the registration that is of interest to people while the bookie is absent."""
        return replace(self, session=b"", reading_key=b"", problems={})

    def encode(self) -> bytes:
        return to_message(self).SerializeToString(deterministic=True)


def to_message(one: Registration) -> pb.Registration:
    return pb.Registration(
        format_version=FORMAT_VERSION,
        bookie_id=one.bookie.bookie_id,
        incarnation=one.bookie.incarnation,
        address=one.address,
        fault_domain=one.fault_domain,
        session=one.session,
        read_only=not one.writable,
        disk_bytes_total=one.disk_bytes_total,
        disk_bytes_free=one.disk_bytes_free,
        version=one.version,
        takes_no_copies=not one.heals,
        reading_key=one.reading_key,
        amiss=one.problems,
    )


def of_message(message: pb.Registration) -> Registration:
    return Registration(
        bookie=BookieRef(message.bookie_id, message.incarnation),
        address=message.address,
        fault_domain=message.fault_domain,
        writable=not message.read_only,
        session=message.session,
        disk_bytes_total=message.disk_bytes_total,
        disk_bytes_free=message.disk_bytes_free,
        version=message.version,
        heals=not message.takes_no_copies,
        reading_key=message.reading_key,
        problems=dict(message.amiss),
    )


def decode(key: str, value: bytes) -> Registration:
    """Decodes the registration under a key. Raises BadRecord."""
    try:
        message = pb.Registration.FromString(value)
    except DecodeError as error:
        raise BadRecord(key, str(error)) from error
    if message.format_version != FORMAT_VERSION:
        raise BadRecord(
            key, f"registration version {message.format_version}; this program supports {FORMAT_VERSION}"
        )
    _check_names(key, message)
    return of_message(message)


def _check_names(key: str, message: pb.Registration) -> None:
    """Raises BadRecord for a registration under another name, or with a name that cannot occur in a ledger's record."""
    try:
        belongs = keys.bookie(message.bookie_id)
    except ValueError as error:
        raise BadRecord(key, str(error)) from error
    if belongs != key:
        raise BadRecord(key, f"it is the registration of {message.bookie_id}, under another name")
    if not message.incarnation or not message.address:
        raise BadRecord(key, "the registration lacks an incarnation or an address")
