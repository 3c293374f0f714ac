"""Credentials for executors: the metadata URI and its files, the password and the key. They are passed on without being
shown.

The driver reads the files, and the pickled reader carries their contents. So executors need neither the files nor an
option that contains a secret, and no secret appears in a plan, a log or the UI.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlencode, urlunsplit

from metadata.secret_file import key_of_environment, read_bounded, read_key, read_password
from metadata.uris import split

FILE_OPTIONS = frozenset({"ca_cert", "cert_cert", "cert_key", "password_file"})
"""Options of a metadata URI whose values are paths of files on the driver's host."""


@dataclass(frozen=True)
class ExecutorAccess:
    """Everything an executor needs to open a client. Its repr shows only the URI."""

    metadata_uri: str
    password: bytes = field(default=b"", repr=False)
    encryption_key: bytes = field(default=b"", repr=False)
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @contextmanager
    def uri(self) -> Iterator[str]:
        """Yields the URI with which to open a client. It is valid in this process until the context ends.

        The files that the URI names are in memory, never on a disk, so a killed process leaves nothing behind.
        """
        if not self.files:
            yield self.metadata_uri
            return
        with ExitStack() as stack:
            paths = {name: stack.enter_context(_in_memory(content)) for name, content in self.files.items()}
            yield _with_options(self.metadata_uri, paths)


def access_of(metadata_uri: str, password_file: str | None, key_file: str | None = None) -> ExecutorAccess:
    """Reads, on the driver, the files that the URI and the options name. Raises ValueError or OSError, which names the
    file."""
    files = {
        name: read_bounded(path, private=name == "password_file")
        for name, path in parse_qsl(split(metadata_uri).query)
        if name in FILE_OPTIONS
    }
    password = read_password(password_file) if password_file else b""
    key = read_key(key_file) if key_file else key_of_environment()
    return ExecutorAccess(metadata_uri, password, key or b"", files)


@contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    """Yields a path at which this process can read these bytes."""
    with os.fdopen(os.memfd_create("bookledger"), "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


def _with_options(uri: str, paths: Mapping[str, str]) -> str:
    parts = split(uri)
    options = dict(parse_qsl(parts.query)) | dict(paths)
    return urlunsplit(parts._replace(query=urlencode(options)))
