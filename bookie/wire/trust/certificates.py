"""TLS certificate, key and trusted authorities of a process: files in one directory, reloaded when they change.

    ca.pem       certificates of the authorities that peers' certificates must be signed by
    cert.pem     our own certificate, and the intermediate ones between it and the authority's
    key.pem      the certificate's key, readable only by its owner
    names.json   optional: {"DNS:nn1.example.org": "journal:nn1"}, for certificates of another authority

A reload that fails, for example because only half of the files have been renewed, changes nothing: connections continue
to use the previously loaded files, and the next change of the files triggers another attempt.
"""

from __future__ import annotations

import json
import logging
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any

from metadata.secret_file import read_bounded

from .identity import Identity, NoIdentity, identity_of, parse_identity

CA, CERTIFICATE, KEY, NAMES = "ca.pem", "cert.pem", "key.pem", "names.json"

ENVIRONMENT = "BOOKLEDGER_CERTS"
"""Environment variable for the directory, used if nothing else specifies it."""

log = logging.getLogger(__name__)


class BadCertificates(ValueError):
    """The files cannot be used; the message contains the file's name and the reason."""


def directory_of_environment() -> str | None:
    """Returns the directory that BOOKLEDGER_CERTS specifies, or None."""
    return os.environ.get(ENVIRONMENT) or None


@dataclass(frozen=True, slots=True)
class Pem:
    """Contents of the files."""

    authorities: bytes
    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class _Loaded:
    pem: Pem
    names: Mapping[str, str]
    server: ssl.SSLContext
    http: ssl.SSLContext
    client: ssl.SSLContext


class Certificates:
    """Certificates in one directory. The constructor and the methods raise BadCertificates."""

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)
        self._seen = self._look()
        self._loaded = self._load()

    @property
    def server(self) -> ssl.SSLContext:
        """Context for servers: TLS 1.3, with client certificates required."""
        return self._newest().server

    @property
    def http(self) -> ssl.SSLContext:
        """Same as `server`, for HTTP."""
        return self._newest().http

    @property
    def client(self) -> ssl.SSLContext:
        """Context for clients. Verify the server by `identity_of`, not by host name."""
        return self._newest().client

    @property
    def pem(self) -> Pem:
        return self._newest().pem

    @property
    def identity(self) -> Identity | None:
        """Our own identity, from our certificate; None if the certificate has none, in which case bookies refuse us."""
        try:
            return identity_of(_own_names(self.pem.certificate), self._loaded.names)
        except NoIdentity:
            return None

    @property
    def expires_at(self) -> datetime:
        """Time at which our own certificate expires."""
        from cryptography import x509

        return x509.load_pem_x509_certificate(self.pem.certificate).not_valid_after_utc

    def why_expired(self, now: datetime, days: int = 0) -> str:
        """If our certificate expires within this many days after `now`, returns a message with the expiry date and
        what to do; otherwise ""."""
        at = self.expires_at
        left = at - now
        if left > timedelta(days=days):
            return ""
        ahead = f"{left.days} days" if left.days > 1 else f"{left // timedelta(hours=1)} hours"
        ends = f"ends in {ahead}," if left > timedelta() else "ran out"
        renew = f"bookledger certs renew {self._directory} --authority DIR"
        return f"{self._directory / CERTIFICATE} {ends} on {at:%Y-%m-%d %H:%M} UTC: {renew}"

    def identity_of(self, connection: ssl.SSLObject) -> Identity:
        """Returns the peer's identity. Raises NoIdentity."""
        return identity_of(connection.getpeercert(), self._loaded.names)

    # ------------------------------------------------------------------------------------------

    def _newest(self) -> _Loaded:
        seen = self._look()
        if seen != self._seen:
            try:
                self._loaded = self._load()
            except BadCertificates as error:
                log.warning("%s; keeping the previous certificates", error)
            else:
                log.info("reloaded the certificates from %s", self._directory)
            self._seen = seen
        return self._loaded

    def _look(self) -> tuple[object, ...]:
        """Returns a fingerprint of the files; follows links, so that a link to a directory can be switched to another
        directory."""
        found: list[object] = []
        for name in (CA, CERTIFICATE, KEY, NAMES):
            try:
                status = (self._directory / name).stat()
            except OSError:
                found.append(None)
            else:
                found.append((status.st_ino, status.st_mtime_ns, status.st_size, status.st_mode))
        return tuple(found)

    def _load(self) -> _Loaded:
        try:
            pem = Pem(self._read(CA), self._read(CERTIFICATE), self._read(KEY, private=True))
            names = _names_in(self._directory / NAMES)
            contexts = self._context("h2"), self._context("http/1.1"), self._context()
        except (OSError, ValueError) as error:  # an SSLError is an OSError
            raise BadCertificates(
                f"certificates in {self._directory} cannot be used: {_describe_error(error)}"
            ) from error
        return _Loaded(pem, names, *contexts)

    def _read(self, name: str, *, private: bool = False) -> bytes:
        return read_bounded(self._directory / name, private=private)

    def _context(self, serves: str = "") -> ssl.SSLContext:
        """Makes a context for a client, or for a server of the protocol `serves`, negotiated by ALPN as gRPC clients
        require."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if serves else ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        # Otherwise OpenSSL would ask for an encrypted key's password on the terminal.
        context.load_cert_chain(self._directory / CERTIFICATE, self._directory / KEY, password=b"")
        context.load_verify_locations(self._directory / CA)
        if serves:
            context.num_tickets = 0  # connections are long-lived, and never resumed
            context.set_alpn_protocols([serves])
        return context


def _own_names(certificate: bytes) -> Mapping[str, Any]:
    """Returns the alternative names of our certificate, in the form that `ssl` uses for those of peers."""
    from cryptography import x509  # imported here: only clients with certificates need it, and only once

    extensions = x509.load_pem_x509_certificate(certificate).extensions
    try:
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return {}
    found = [("URI", value) for value in names.get_values_for_type(x509.UniformResourceIdentifier)]
    found += [("DNS", value) for value in names.get_values_for_type(x509.DNSName)]
    found += [("email", value) for value in names.get_values_for_type(x509.RFC822Name)]
    found += [
        ("Registered ID", value.dotted_string) for value in names.get_values_for_type(x509.RegisteredID)
    ]
    found += [("IP Address", _format_as_ssl(value)) for value in names.get_values_for_type(x509.IPAddress)]
    return {"subjectAltName": found}


def _format_as_ssl(address: object) -> str:
    if not isinstance(address, IPv6Address):
        return str(address)
    return ":".join(f"{int(part, 16):X}" for part in address.exploded.split(":"))


def _describe_error(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"{error.reason or error}: check that the key matches the certificate and has no password"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _names_in(path: Path) -> Mapping[str, str]:
    if not path.exists():
        return {}
    try:
        found = json.loads(read_bounded(path))
    except (ValueError, RecursionError) as error:
        raise BadCertificates(f"{path} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadCertificates(f"{path} is not a JSON object that maps alternative names to identities")
    for name, who in found.items():
        try:
            parse_identity(str(who))
        except NoIdentity as error:
            raise BadCertificates(f"{path}, {name!r}: {error}") from None
    return found
