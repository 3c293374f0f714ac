"""A simple certificate authority: a key that signs certificates for the processes of a cluster.

ca.pem        the authority's certificate: every process gets a copy
ca-key.pem    its key: anyone who has it can impersonate any process
"""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bookie.wire.trust.certificates import CA, CERTIFICATE, KEY
from bookie.wire.trust.identity import Identity
from metadata.secret_file import read_bounded

AUTHORITY_KEY = "ca-key.pem"

CLOCKS_APART = timedelta(minutes=5)
"""The validity of a certificate starts this long before it is issued, to allow for hosts whose clocks are slow."""

COMMON_NAME_CHARACTERS_MAX = 64


_HOST = re.compile(
    r"(?=.{1,253}$)(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_-]{0,62})(\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,62}))*"
)


class BadAuthority(ValueError):
    """The files of an authority are missing or invalid, or the directory already has an authority."""


def make_authority(directory: Path, name: str, days: int) -> x509.Certificate:
    """Creates an authority in a directory that has none. Raises BadAuthority, OSError."""
    if (directory / AUTHORITY_KEY).exists() or (directory / CA).exists():
        raise BadAuthority(f"{directory} already holds an authority; specify another directory")
    key = _new_key()
    subject = _named(name)
    unsigned = (
        _builder(subject, subject, key, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    certificate = unsigned.sign(key, hashes.SHA256())
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    _put(directory / AUTHORITY_KEY, _pem_of(key), private=True)
    _put(directory / CA, certificate.public_bytes(Encoding.PEM))
    return certificate


class Authority:
    """Loads an existing authority. Raises BadAuthority."""

    def __init__(self, directory: Path) -> None:
        try:
            self._pem = read_bounded(directory / CA)
            self.certificate = x509.load_pem_x509_certificate(self._pem)
            key = load_pem_private_key(read_bounded(directory / AUTHORITY_KEY, private=True), None)
        except (OSError, ValueError, TypeError) as error:
            raise BadAuthority(f"{directory} contains no usable certificate authority: {error}") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise BadAuthority(
                f"{directory / AUTHORITY_KEY} is not an elliptic curve key, which an authority needs"
            )
        self._key = key

    def issue(self, directory: Path, identity: Identity, hosts: Sequence[str], days: int) -> x509.Certificate:
        """Writes a new certificate and key to a directory, with the authorities to trust. Raises OSError."""
        names: list[x509.GeneralName] = [
            x509.UniformResourceIdentifier(identity.urn),
            *map(general_name, hosts),
        ]
        return self._sign(directory, _named(str(identity)), x509.SubjectAlternativeName(names), days)

    def renew(self, directory: Path, days: int) -> x509.Certificate:
        """Reissues the certificate, with a new key. Raises OSError, and BadAuthority if there is no certificate."""
        old = certificate_in(directory)
        try:
            names = old.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound as error:
            raise BadAuthority(
                f"{directory / CERTIFICATE} has no alternative names: issue a new certificate"
            ) from error
        return self._sign(directory, old.subject, names, days)

    def _sign(
        self, directory: Path, subject: x509.Name, names: x509.SubjectAlternativeName, days: int
    ) -> x509.Certificate:
        key = _new_key()
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        unsigned = (
            _builder(subject, self.certificate.subject, key, days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(both), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(issuer, critical=False)
            .add_extension(names, critical=False)
        )
        certificate = unsigned.sign(self._key, hashes.SHA256())
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        # A process that reloads after only the key has been written sees a mismatch, and keeps its old pair.
        _put(directory / CA, self._beside_others(directory / CA))
        _put(directory / KEY, _pem_of(key), private=True)
        _put(directory / CERTIFICATE, certificate.public_bytes(Encoding.PEM))
        return certificate

    def _beside_others(self, path: Path) -> bytes:
        """Returns the authorities in the file at `path`, plus this one: the old and the new authority are both trusted
        while one is being replaced by the other."""
        try:
            trusted = x509.load_pem_x509_certificates(read_bounded(path))
        except FileNotFoundError:
            trusted = []
        except ValueError as error:
            raise BadAuthority(f"{path} holds no certificates: {error}") from error
        others = [one.public_bytes(Encoding.PEM) for one in trusted if one != self.certificate]
        return b"".join([*others, self._pem])


def certificate_in(directory: Path) -> x509.Certificate:
    """Loads the certificate of a process. Raises BadAuthority."""
    try:
        return x509.load_pem_x509_certificate(read_bounded(directory / CERTIFICATE))
    except (OSError, ValueError) as error:
        raise BadAuthority(f"{directory} holds no certificate that can be used: {error}") from error


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS_APART)
        .not_valid_after(now + timedelta(days=days))
    )


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:COMMON_NAME_CHARACTERS_MAX])])


def general_name(host: str) -> x509.GeneralName:
    """Converts a DNS name, or an IP address with or without brackets, to a general name. Raises ValueError."""
    try:
        address = ipaddress.ip_address(host[1:-1] if host[:1] + host[-1:] == "[]" else host)
    except ValueError:
        if not _HOST.fullmatch(host):
            raise ValueError(f"{host!r} is neither an IP address nor a host name in ASCII") from None
        return x509.DNSName(host)
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id:
        raise ValueError(f"{host} is only valid on one link, so a certificate cannot contain it")
    return x509.IPAddress(address)


def _pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _put(path: Path, content: bytes, *, private: bool = False) -> None:
    """Writes a file atomically, and never leaves private content readable by others."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with os.fdopen(
        os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o644), "wb"
    ) as file:
        file.write(content)
        file.flush()
        os.fdatasync(file.fileno())
    beside.replace(path)
