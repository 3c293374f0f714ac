"""How a group of consumers shares the logs of a set: evenly, moving as few logs as possible when a member joins or
leaves.

The record only assigns the logs. The queue of each cursor ensures that no two members have the same log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ... import keys, settled_writes
from ...errors import KeyConflict
from ...store import MetadataStore, list_all
from ...version import encode_record
from .. import records_pb2 as pb
from ..record_decoding import parse_record

FORMAT_VERSION = 1

Owners = tuple[str, ...]
"""For each log, the key of the member to which it is assigned."""


class Shares(NamedTuple):
    """The assignment of logs, and the number of logs when the group began. The group reads logs that are added later
    from their beginning, regardless of where it began reading the original logs."""

    owners: Owners
    begun_with: int


def shared(owners: Sequence[str], members: Sequence[str], logs: int) -> Owners:
    """Assigns `logs` logs to the members; `owners` is the previous assignment. If there are no members, the logs have
    no owner."""
    if not members:
        return ("",) * logs
    held: dict[str, list[int]] = {member: [] for member in members}
    free: list[int] = []
    for log, owner in enumerate([*owners, *("",) * logs][:logs]):
        held.get(owner, free).append(log)
    least, more = divmod(logs, len(members))
    by_held = sorted(
        members, key=lambda member: -len(held[member])
    )  # the member that has the most logs keeps the most
    for n, member in enumerate(by_held):
        quota = least + (n < more)
        free += held[member][quota:]
        del held[member][quota:]
    for n, member in enumerate(by_held):
        lacks = least + (n < more) - len(held[member])
        held[member] += free[:lacks]
        del free[:lacks]
    owner_of = {log: member for member, its in held.items() for log in its}
    return tuple(owner_of[log] for log in range(logs))


class LogShares:
    """The shares of one group. All methods raise MetadataError."""

    def __init__(self, store: MetadataStore, log_set: str, group: str) -> None:
        self._store = store
        self.key = keys.log_shares(log_set, group)

    async def share(self, members: Sequence[str], logs: int) -> Shares | None:
        """Divides the logs among these members, unless that has already been done; returns None if another client was
        faster and the caller has to read again."""
        found = await self._store.get(self.key)
        before = Shares((), logs) if found is None else decode(self.key, found.value)
        wanted = Shares(shared(before.owners, members, logs), before.begun_with)
        if wanted == before:
            return wanted
        value = encode_record(
            pb.LogSetShares(
                format_version=FORMAT_VERSION,
                owners=wanted.owners,
                nonce=settled_writes.new_nonce(),
                begun_with=wanted.begun_with,
            )
        )
        try:
            await settled_writes.write(self._store, self.key, value, None if found is None else found.version)
        except KeyConflict:
            return None
        return wanted


async def forget_all(store: MetadataStore, log_set: str) -> None:
    """Deletes the shares of all groups of a deleted set. Raises MetadataError."""
    async for item in list_all(store, keys.all_log_shares(log_set)):
        await settled_writes.delete_unless_changed(store, item.key, item.version)


def decode(key: str, value: bytes) -> Shares:
    """Decodes the shares. Raises BadRecord."""
    message = parse_record(pb.LogSetShares, key, value, FORMAT_VERSION, "shares")
    return Shares(tuple(message.owners), message.begun_with or len(message.owners))
