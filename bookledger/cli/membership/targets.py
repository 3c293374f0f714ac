"""Ledgers and logs as named on the command line, and clients of their cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ledgers import LedgerClient, LedgerError, Log
from ledgers.errors import EntryUnreadable, LedgerRecoveryFailed, NotEnoughAnswers
from metadata.errors import MetadataError
from metadata.healing.presence import Presence, Whereabouts, whereabouts
from metadata.records.ledger_store import LedgerStore
from metadata.store import MetadataStore

from ..config.clients import client_config
from ..options import (
    ledger_argument,
    log_argument,
    log_password_option,
    made_of,
    metadata_option,
    password_option,
)
from .cluster_survey import with_store
from .rollback_check import explain_missing_cluster

# Remedies for a ledger that cannot be read or recovered: which bookies to bring back, and how to proceed without them.
#
# They never suggest bringing back a lost bookie: one that was given up or decommissioned, or whose disk was replaced.

OfALedger = EntryUnreadable | LedgerRecoveryFailed | NotEnoughAnswers
OF_A_LEDGER = (EntryUnreadable, LedgerRecoveryFailed, NotEnoughAnswers)


@contextmanager
def remedies(metadata_uri: str, *, deleting: bool = False) -> Iterator[None]:
    """Adds remedies to an error that a ledger raises inside the block."""
    try:
        yield
    except OF_A_LEDGER as error:
        if isinstance(error, LedgerRecoveryFailed) and not error.is_undecided:
            raise  # the error itself states what is missing, such as bookies to write to
        ledger_id = error.ledger_id
        try:
            absent = with_store(metadata_uri, lambda store: _absent(store, ledger_id))
        except MetadataError:
            raise error from None
        raise LedgerError(f"{error}; {_describe_remedies(error, absent, deleting=deleting)}") from error


async def _absent(store: MetadataStore, ledger_id: int) -> list[Whereabouts]:
    """Returns the bookies of the ledger that are not alive, by name."""
    found = await LedgerStore(store).read(ledger_id)
    refs = () if found is None else [ref for fragment in found.record.fragments for ref in fragment.ensemble]
    seen = [await whereabouts(store, ref) for ref in sorted(set(refs))]
    return [one for one in seen if one.presence is not Presence.LIVING]


def _describe_remedies(error: OfALedger, absent: Sequence[Whereabouts], *, deleting: bool) -> str:
    lost = [f"{one.bookie} ({one.why})" for one in absent if one.is_lost]
    away = [str(one.bookie) for one in absent if not one.is_lost]
    if not absent and not isinstance(error, EntryUnreadable):
        away = ["the bookies that it names"]  # a bookie that has just died stays registered for a while
    ways = "; ".join(_ways(error, deleting=deleting))
    said = [f"lost for good: {', '.join(lost)}"] if lost else []
    if away:
        said.append(f"bring back {', '.join(away)}, and try again")
        ways = f"if they will not come back, {ways}"
    return "; ".join([*said, ways])


def _ways(error: OfALedger, *, deleting: bool) -> Iterator[str]:
    ledger_id = error.ledger_id
    yield f"`bookledger ledger salvage {ledger_id} --output FILE` saves the entries that exist"
    if deleting:
        yield f"then `bookledger ledger delete --force {ledger_id}` deletes it as it is"
    elif isinstance(error, LedgerRecoveryFailed):
        yield (
            f"then `bookledger ledger recover --accept-loss {ledger_id}` closes it where the survivors end, and loses "
            "the entries that only the others hold"
        )


@contextmanager
def connected(metadata_uri: str, *, deleting: bool = False, **more: Any) -> Iterator[LedgerClient]:
    """Yields a client, configured by `[client]` and `more`. Errors raised inside the block suggest a remedy, or report
    that there is no cluster."""
    with (
        remedies(metadata_uri, deleting=deleting),
        explain_missing_cluster(metadata_uri),
        LedgerClient(metadata_uri, config=client_config(**more)) as client,
    ):
        yield client


@dataclass(frozen=True, slots=True)
class LedgerPlace:
    """A ledger that is named on the command line."""

    metadata_uri: str
    ledger_id: int
    password: bytes


@dataclass(frozen=True, slots=True)
class LogPlace:
    """A log, or a set of logs, that is named on the command line."""

    metadata_uri: str
    name: str
    password: bytes

    @contextmanager
    def opened(self, *, create: bool = False) -> Iterator[Log]:
        """Opens the log inside the block. Operations that the log refuses become errors of the command."""
        with connected(self.metadata_uri) as client:
            found = client.log(self.name, create=create, password=self.password)
            try:
                yield found
            except ValueError as error:
                raise LedgerError(str(error)) from None


ledger_place = made_of("place", LedgerPlace, metadata_option, password_option, ledger_argument)
"""Adds LEDGER, --metadata and --password-file; the command gets them as `place`."""

log_place = made_of("place", LogPlace, metadata_option, log_password_option, log_argument)
"""Adds LOG, --metadata and --password-file; the command gets them as `place`."""
