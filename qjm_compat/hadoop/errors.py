"""What can be wrong with a call of Hadoop's IPC, beside what the journal says."""

from __future__ import annotations

from ..errors import BadRequest, JournalError

_IPC = "org.apache.hadoop.ipc."


class BadFrame(JournalError):
    """Bytes that are no frame: the connection is of no more use."""


class NoSuchMethod(JournalError):
    java_class = _IPC + "RpcNoSuchMethodException"


class NoSuchProtocol(JournalError):
    java_class = _IPC + "RpcNoSuchProtocolException"


class VersionMismatch(JournalError):
    java_class = _IPC + "RPC$VersionMismatch"


class BadMessage(BadRequest):
    """A message that lacks a field, or is none."""

    java_class = "com.google.protobuf.UninitializedMessageException"


class RemoteError(JournalError):
    """What a JournalNode said that has no error of ours."""

    def __init__(self, java_class: str, message: str) -> None:
        super().__init__(message or java_class)
        self.java_class = java_class


class NameInUse(JournalError):
    """Another daemon lives under this name."""
