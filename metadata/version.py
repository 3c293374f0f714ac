"""The version of a key: what a compare-and-swap compares (rules M1 and W8)."""

from __future__ import annotations

from typing import Literal, Protocol, Self

VERSION_BEGINS_BYTES = 48
"""How many of a value's first bytes its version contains: enough for an identity and a nonce."""


class Version(int):
    """A key's version: the revision of its last change, and the first bytes of the value that this change wrote.

    A change that specifies a version is made only if both match, because a store that has reverted to an older copy
    assigns the same revisions a second time. So a value that is changed repeatedly begins with a nonce
    (`encode_record`). Versions are compared and sorted by revision. Without `value`, only the revision has to match.
    """

    begins: bytes

    def __new__(cls, revision: int, value: bytes = b"") -> Self:
        version = super().__new__(cls, revision)
        version.begins = value[
            : min(VERSION_BEGINS_BYTES, len(value) - 1)
        ]  # etcd can only match values longer than `begins`
        return version

    def __getnewargs__(self) -> tuple[int]:
        return (int(self),)  # a copy gets `begins` along with its other attributes

    def matches(self, value: bytes) -> bool:
        """Returns whether the value begins with `begins` and is longer; any value matches an empty `begins`."""
        return not self.begins or (value.startswith(self.begins) and len(value) > len(self.begins))


NO_VERSION = Version(0)
"""Lower than every version: for a key that is not known to exist."""


class ChangedMessage(Protocol):
    """A protobuf message with the nonce of the change that wrote it."""

    nonce: bytes

    def SerializeToString(self, *, deterministic: bool = ...) -> bytes: ...  # noqa: N802 — as protobuf names it
    def ClearField(self, field_name: Literal["nonce"]) -> None: ...  # noqa: N802 — as protobuf names it


def encode_record(message: ChangedMessage) -> bytes:
    """Serializes a message with the nonce first, so that the key's `Version` contains it. Removes the nonce from
    `message`."""
    begins = type(message)()
    begins.nonce = message.nonce
    message.ClearField("nonce")
    return begins.SerializeToString() + message.SerializeToString(deterministic=True)
