"""The files of a process's certificates: what is refused, and what happens when they change under it."""

from __future__ import annotations

import json
import logging
import os
import shutil
import ssl
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from bookie.wire.trust.certificates import CA, CERTIFICATE, KEY, NAMES, BadCertificates, Certificates
from bookie.wire.trust.identity import Identity, identity_of
from bookie.wire.trust.roles import Role
from tests.support.authority import TestAuthority

Spoil = Callable[[Path], object]


def encrypt(directory: Path) -> None:
    key = load_pem_private_key((directory / KEY).read_bytes(), None)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    (directory / KEY).write_bytes(locked)


SPOILED: dict[str, tuple[Spoil, str]] = {
    "no authority": (lambda d: (d / CA).unlink(), "ca.pem: No such file"),
    "no certificate": (lambda d: (d / CERTIFICATE).unlink(), "cert.pem: No such file"),
    "no key": (lambda d: (d / KEY).unlink(), "key.pem: No such file"),
    "a key that others can read": (lambda d: (d / KEY).chmod(0o640), "chmod 600"),
    "a key of another": (
        lambda d: shutil.copy(d.parent / "client-other" / KEY, d / KEY),
        "matches the certificate",
    ),
    "a key with a password": (encrypt, "has no password"),
    "no PEM at all": (lambda d: (d / CERTIFICATE).write_bytes(b"\0garbage"), "cannot be used"),
    "an empty authority": (lambda d: (d / CA).write_bytes(b""), "cannot be used"),
    "names that are no JSON": (lambda d: (d / NAMES).write_text("{"), "is not JSON"),
    "names that are a list": (lambda d: (d / NAMES).write_text("[]"), "not a JSON object"),
    "a name of an unknown role": (lambda d: (d / NAMES).write_text('{"DNS:h": "king:a"}'), "roles are"),
}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    authority = TestAuthority(tmp_path)
    authority.of(Role.CLIENT, "other")
    return authority.of(Role.CLIENT, "me")


@pytest.mark.parametrize("what", SPOILED)
def test_files_that_cannot_be_used_are_refused_with_what_is_wrong(directory: Path, what: str) -> None:
    spoil, why = SPOILED[what]
    spoil(directory)
    with pytest.raises(BadCertificates, match=why) as refused:
        Certificates(directory)
    assert str(directory) in str(refused.value)


def test_contexts_stay_the_same_while_the_files_do(directory: Path) -> None:
    certificates = Certificates(directory)
    assert certificates.server is certificates.server
    assert certificates.client is certificates.client


def test_renewed_files_are_used_from_the_next_connection_on(tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path)
    directory = authority.of(Role.CLIENT, "me")
    certificates = Certificates(directory)
    before, pem = certificates.server, certificates.pem
    authority.authority.renew(directory, 1)
    assert certificates.server is not before
    assert certificates.pem != pem
    assert certificates.pem.key == (directory / KEY).read_bytes()


def test_half_renewed_files_change_nothing_and_are_told_of_once(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certificates = Certificates(directory)
    before, key = certificates.server, (directory / KEY).read_bytes()
    other = directory.parent / "client-other"
    shutil.copy(other / KEY, directory / KEY)
    with caplog.at_level(logging.WARNING):
        assert certificates.server is before
        assert certificates.client is not None
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert key.decode() not in caplog.text
    shutil.copy(other / CERTIFICATE, directory / CERTIFICATE)
    assert certificates.server is not before


def test_a_directory_that_is_exchanged_behind_a_link_is_noticed(tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path)
    link, after = tmp_path / "current", tmp_path / "next"
    link.symlink_to(authority.of(Role.CLIENT, "before"))
    certificates = Certificates(link)
    before = certificates.pem
    after.symlink_to(authority.of(Role.CLIENT, "after"))
    os.replace(after, link)
    assert certificates.pem != before


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (x509.DNSName("nn1.example"), "DNS:nn1.example"),
        (x509.RFC822Name("nn1@example.org"), "email:nn1@example.org"),
        (x509.IPAddress(ip_address("10.0.0.1")), "IP:10.0.0.1"),
        (x509.IPAddress(ip_address("2001:db8::a")), "IP:2001:DB8:0:0:0:0:0:A"),
        (x509.RegisteredID(x509.ObjectIdentifier("1.2.3.4")), "Registered ID:1.2.3.4"),
    ],
)
def test_who_we_are_ourselves_is_read_as_others_read_it(
    tmp_path: Path, name: x509.GeneralName, told: str
) -> None:
    """Of a certificate of another authority: `told` is what `ssl` makes of the name."""
    authority = TestAuthority(tmp_path)
    directory = tmp_path / "mine"
    subject = authority.authority.certificate.subject
    authority.authority._sign(directory, subject, x509.SubjectAlternativeName([name]), 1)
    (directory / "names.json").write_text(json.dumps({told: "client:app?owner=team-a"}))
    mine = Certificates(directory)
    assert mine.identity == Identity(Role.CLIENT, "app", "team-a")
    decoded = ssl._ssl._test_decode_cert(str(directory / "cert.pem"))  # type: ignore[attr-defined]
    assert identity_of(decoded, {told: "client:app?owner=team-a"}) == mine.identity
