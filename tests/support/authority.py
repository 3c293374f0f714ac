"""Certificates for every role, of an authority that is made for one test."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509

from bookie.wire.trust.identity import Identity
from bookie.wire.trust.roles import Role
from bookledger.cli.certs import authority
from bookledger.cli.certs.authority import Authority, make_authority

HOSTS = ("127.0.0.1", "localhost")


class TestAuthority:
    """Gives each role a directory of its own under `path`."""

    __test__ = False

    def __init__(self, path: Path, name: str = "authority") -> None:
        self._path = path / name
        make_authority(self._path / "own", name, days=2)
        self.authority = Authority(self._path / "own")

    def of(self, role: Role, name: str = "someone", days: int = 1) -> Path:
        directory = self._path / f"{role.value}-{name}"
        if not directory.exists():
            self.authority.issue(directory, Identity(role, name), HOSTS, days)
        return directory

    def bookie(self, name: str) -> Path:
        return self.of(Role.BOOKIE, name)

    def nameless(self) -> Path:
        """A certificate for a host, and nothing else."""
        directory = self._path / "nameless"
        names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
        self.authority._sign(directory, self.authority.certificate.subject, names, 1)
        return directory

    def expired(self, role: Role, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A certificate that was good until yesterday."""
        monkeypatch.setattr(authority, "CLOCKS_APART", timedelta(days=9))
        directory = self.of(role, "expired", days=-1)
        monkeypatch.undo()
        return directory
