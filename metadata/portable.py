"""Errors that cross processes: raised in one, and raised again, the same, in another."""

from __future__ import annotations

from typing import Any, TypeVar

E = TypeVar("E", bound="PortableError")


class PortableError(Exception):
    """Can be pickled and copied with all its fields, whatever its constructor takes, and compared.

    Two are equal that are of one class and say the same, with the same fields. The cause is not carried along.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.args, vars(self))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PortableError) or type(self) is not type(other):
            return NotImplemented
        return self.args == other.args and _comparable(vars(self)) == _comparable(vars(other))

    def __hash__(self) -> int:
        return hash((type(self), self.args))


def _comparable(value: Any) -> Any:
    """The same for the same; ordinary exceptions among the fields compare as these do."""
    match value:
        case PortableError():
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
