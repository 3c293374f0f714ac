"""Errors of object stores that applications can handle."""

from __future__ import annotations

from metadata.picklable_errors import NotFound, Unavailable

from ..errors import LedgerError


class ObjectStoreFailed(Unavailable, LedgerError):
    """The object store refused or failed a request; `why` contains its reason. If the store is unreachable or throttles
    requests, try again later; if it denies access or the URL is wrong, use other credentials or another URL."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.name = name
        self.why = why


class NoSuchObject(NotFound, ObjectStoreFailed):
    """An object that a ledger's record refers to is not in the object store. Restore it from the store's object
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
