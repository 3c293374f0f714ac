"""Errors of object stores that applications can handle."""

from __future__ import annotations

from metadata.picklable_errors import NotFound, Unavailable

from ..errors import LedgerError


class ObjectStoreFailed(Unavailable, LedgerError):
    """The object store refused or failed a request, for the reason it gave. If it is unreachable or throttles, try
    again later; if it denies access or the name is wrong, use other credentials or another URL."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.name = name
        self.why = why


class NoSuchObject(NotFound, ObjectStoreFailed):
    """The object store does not have an object that a ledger's record names. Restore the object from the store's own
    versions or from a backup."""

    def __init__(self, name: str) -> None:
        ObjectStoreFailed.__init__(self, name, "there is no such object")


class BadObject(LedgerError):
    """An object, or one of its blocks, differs from what was uploaded."""


class NotOffloaded(LedgerError):
    """The ledger was not copied to an object store, or was not removed from the bookies. Nothing was lost."""

    def __init__(self, ledger_id: int, why: str) -> None:
        super().__init__(f"ledger {ledger_id}: {why}")
        self.ledger_id = ledger_id
        self.why = why
