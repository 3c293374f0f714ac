"""TLS credentials of an etcd client, reloaded when their files change.

A connection keeps its credentials. The next one uses the renewed files, so renewed certificates require no restart.
"""

from __future__ import annotations

import logging
from pathlib import Path

import grpc

from .config import EtcdConfig

log = logging.getLogger(__name__)


class Credentials:
    """Credentials of one store. The constructor raises OSError or ValueError for a file that cannot be used."""

    def __init__(self, config: EtcdConfig) -> None:
        self._config = config
        self._seen = self._look()
        self._newest = config.read_credentials()

    def newest(self) -> grpc.ChannelCredentials | None:
        """The latest credentials; None for plain text. A failed reload (half-renewed files) keeps the former ones."""
        seen = self._look()
        if seen != self._seen:
            self._seen = seen
            try:
                self._newest = self._config.read_credentials()
            except (OSError, ValueError) as error:
                log.warning("certificates for etcd: %s; keeping the previous ones", error)
            else:
                log.info("certificates for etcd were read again")
        return self._newest

    def _look(self) -> list[tuple[int, int, int] | None]:
        """Fingerprint of the files."""
        return [_mark(Path(one)) for one in self._config.tls_files]


def _mark(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
