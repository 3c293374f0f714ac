"""Errors of Hadoop's IPC, in addition to those of the journal."""

from __future__ import annotations

from ..errors import BadRequest, JournalError

_IPC = "org.apache.hadoop.ipc."


class BadRpcFrame(JournalError):
    """The received bytes are not a valid frame, so the connection is unusable."""


class NoSuchMethod(JournalError):
    java_class = _IPC + "RpcNoSuchMethodException"


class NoSuchProtocol(JournalError):
    java_class = _IPC + "RpcNoSuchProtocolException"


class VersionMismatch(JournalError):
    java_class = _IPC + "RPC$VersionMismatch"


class BadRpcMessage(BadRequest):
    """A message that lacks a field, or cannot be decoded."""

    java_class = "com.google.protobuf.UninitializedMessageException"


class RemoteError(JournalError):
    """An error that a JournalNode reports under a Java class that has no counterpart here."""

    def __init__(self, java_class: str, message: str) -> None:
        super().__init__(message or java_class)
        self.java_class = java_class


class NameInUse(JournalError):
    """Another daemon is running under this name."""
