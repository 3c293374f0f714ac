"""Errors of object stores, for applications to act on."""

from __future__ import annotations

from metadata.picklable_errors import NotFound, Unavailable

from ..errors import LedgerError


class ObjectStoreFailed(Unavailable, LedgerError):
    """The object store did not do what it was asked, and said why. Where it is away or throttles, try again later; a
    denial or a wrong name needs other credentials, or another URL."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.name = name
        self.why = why


class NoSuchObject(NotFound, ObjectStoreFailed):
    """The object store does not have the object. What a ledger's record names is gone: bring the object back from the
    store's own versions or backup."""

    def __init__(self, name: str) -> None:
        ObjectStoreFailed.__init__(self, name, "there is no such object")


class BadObject(LedgerError):
    """An object, or a block of one, that is not what was uploaded."""


class NotOffloaded(LedgerError):
    """The ledger cannot be copied to an object store, or taken off bookies, or was not: nothing was lost by that."""

    def __init__(self, ledger_id: int, why: str) -> None:
        super().__init__(f"ledger {ledger_id}: {why}")
        self.ledger_id = ledger_id
        self.why = why
