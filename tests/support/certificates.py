"""Certificates for an etcd: of its server and of a client, by an authority of their own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bookie.wire.trust.certificates import CA, CERTIFICATE, KEY
from bookie.wire.trust.roles import Role
from tests.support.authority import TestAuthority


@dataclass(frozen=True, slots=True)
class Certificates:
    """Paths of PEM files. The client's lie beside the authority's."""

    authority: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path


def make_certificates(directory: Path) -> Certificates:
    made = TestAuthority(directory)
    server, client = made.of(Role.BOOKIE), made.of(Role.CLIENT)
    return Certificates(client / CA, server / CERTIFICATE, server / KEY, client / CERTIFICATE, client / KEY)
