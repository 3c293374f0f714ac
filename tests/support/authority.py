"""Certificates for every role, of an authority that is made for one test."""

from __future__ import annotations

import ssl
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509

from bookie.wire.trust.certificates import CA, CERTIFICATE, KEY, Certificates
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
        make_authority(self._path / "own", name, days=60)
        self.authority = Authority(self._path / "own")

    def of(self, role: Role, name: str = "someone", days: int = 30, *, owner: str = "") -> Path:
        directory = self._path / (f"{role.value}-{name}" + (f"-of-{owner}" if owner else ""))
        if not directory.exists():
            self.authority.issue(directory, Identity(role, name, owner), HOSTS, days)
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


def wrong_credentials(
    tmp_path: Path, authority: TestAuthority, monkeypatch: pytest.MonkeyPatch
) -> dict[str, ssl.SSLContext | None]:
    """None speaks plain text."""
    right = authority.of(Role.ADMIN)
    without = ssl.create_default_context(cafile=str(right / CA))
    without.check_hostname = False
    old = ssl.create_default_context(cafile=str(right / CA))
    old.check_hostname = False
    old.load_cert_chain(right / CERTIFICATE, right / KEY)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    stranger = ssl.create_default_context(cafile=str(right / CA))
    stranger.check_hostname = False
    foreign = TestAuthority(tmp_path, "another").of(Role.ADMIN)
    stranger.load_cert_chain(foreign / CERTIFICATE, foreign / KEY)
    return {
        "plain text": None,
        "no certificate": without,
        "an old version of TLS": old,
        "another authority's certificate": stranger,
        "an expired certificate": Certificates(authority.expired(Role.ADMIN, monkeypatch)).client,
    }
