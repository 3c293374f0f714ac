"""Registers a bookie in the metadata under a lease while it is alive (rule M2).

A bookie never takes the name of a live bookie. It takes over the registration of its own previous process immediately
if that process has certainly ended, which is the case if it registered while holding the lock that this process now
holds. If another machine has locked the same directory through a file system that does not share locks, the locks
differ, and this bookie waits for the lease to expire.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from metadata.leases.held_name import HeldName
from metadata.records.registration import Registration, decode
from metadata.store import MetadataStore, Versioned

from ..errors import NameTaken
from .directory import COOKIE

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def lock_identity(data_directory: Path) -> bytes:
    """Returns an identifier for the lock that a bookie holds on this directory, derived from the running kernel and the
    locked file.

    Two processes cannot hold the same lock at the same time. Returns b"" if the kernel has no boot id.
    """
    try:
        boot = BOOT_ID.read_text().strip()
    except OSError:
        return b""
    cookie = os.stat(data_directory / COOKIE)
    return hashlib.sha256(f"{boot} {cookie.st_dev} {cookie.st_ino}".encode()).digest()


class Registrar(HeldName):
    """Keeps one registration alive. A caller that passes `lock_identity` must hold that lock from before `take` is
    called until after `give_up` has returned."""

    def __init__(
        self,
        store: MetadataStore,
        registration: Registration,
        lease_seconds: float,
        *,
        lock_identity: bytes = b"",
    ) -> None:
        what = f"the registration of {registration.bookie}"
        super().__init__(store, registration.key, lease_seconds, lock_identity, what)
        self._registration = registration

    @property
    def registration(self) -> Registration:
        """The current registration, or the one about to be published, without its session."""
        return self._registration

    def set_read_only(self, read_only: bool) -> None:
        """Makes `keep` publish, as soon as possible, whether the bookie accepts new entries (rule B4)."""
        self._set(replace(self._registration, writable=not read_only))

    def set_disk(self, total_bytes: int, free_bytes: int) -> None:
        """Makes `keep` publish the disk's size and free space."""
        self._set(replace(self._registration, disk_bytes_total=total_bytes, disk_bytes_free=free_bytes))

    def set_problems(self, problems: Mapping[str, str]) -> None:
        """Makes `keep` publish the bookie's problems, keyed by fact name, if they have changed."""
        self._set(replace(self._registration, problems=problems))

    def _set(self, registration: Registration) -> None:
        if registration != self._registration:
            self._registration = registration
            self.held.changed.set()

    def _value(self, session: bytes) -> bytes:
        return replace(self._registration, session=session).encode()

    def _session_of(self, found: Versioned) -> bytes:
        return decode(found.key, found.value).session

    def _taken(self) -> NameTaken:
        name = self._registration.bookie
        return NameTaken(f"another bookie is registered as {name}; stop it or use another name")
