"""Picklable errors, which can be raised in one process and raised again in another with all their fields. Also the base
classes that errors of several packages share, so that a handler does not have to depend on the package."""

from __future__ import annotations

from typing import Any, TypeVar

E = TypeVar("E", bound="PicklableError")


class PicklableError(Exception):
    """An exception that can be compared, and can be pickled and copied with all its fields, whatever arguments its
    constructor takes.

    Two exceptions are equal if their classes, messages and fields are equal. The cause is not preserved.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.args, vars(self))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PicklableError) or type(self) is not type(other):
            return NotImplemented
        return self.args == other.args and _comparable(vars(self)) == _comparable(vars(other))

    def __hash__(self) -> int:
        return hash((type(self), self.args))


class NotFound(PicklableError):
    """The requested object does not exist, or no longer exists: check its id."""


class OutOfRange(NotFound):
    """The position is beyond the end of a ledger or log, or negative: check the end again, or read a smaller range."""


class AlreadyExists(PicklableError):
    """The object to be created already exists. Nothing was changed: choose another id, or use the existing object."""


class AccessDenied(PicklableError):
    """The caller lacks the password, the key or the role for this. A retry does not help."""


class TakenOver(PicklableError):
    """Another writer has taken over the object that this writer was writing: this writer must stop."""


class Unavailable(PicklableError):
    """A service that the call needs did not answer, or too few of its servers did. The same call may succeed once they
    are available again."""


def _comparable(value: Any) -> Any:
    """Makes a value comparable: ordinary exceptions among the fields compare by class and arguments."""
    match value:
        case PicklableError():
            return value
        case BaseException():
            return type(value), value.args
        case dict():
            return {key: _comparable(one) for key, one in value.items()}
        case _:
            return value


def _again(kind: type[E], args: tuple[object, ...], fields: dict[str, object]) -> E:
    error = kind.__new__(kind, *args)
    vars(error).update(fields)
    return error
