"""Derives a ledger's keys from its password and id; they never leave the client.

    secret, ledger id ── HKDF-SHA256 ──┬── digest key    signs entries, with HMAC_SHA256 digests
                                       └── private key   proves to bookies the right to write, fence and read

The secret is the stretched password (`stretching`).
"""

from __future__ import annotations

import hashlib
import hmac
import struct

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bookie.wire import NO_CREDENTIAL, Credential
from bookie.wire.credentials import Purpose, statement

_ID = struct.Struct("<q")


def digest_key(ledger_id: int, secret: bytes) -> bytes:
    """Returns the key of the ledger's HMAC_SHA256 digests."""
    return _derived(ledger_id, secret, b"ledger key")


class LedgerKey:
    """Proves to bookies that its holder knows the ledger's password; blank if the ledger has no password."""

    def __init__(self, ledger_id: int, secret: bytes) -> None:
        self._ledger_id = ledger_id
        self._private = (
            Ed25519PrivateKey.from_private_bytes(_derived(ledger_id, secret, b"writer key"))
            if secret
            else None
        )

    @property
    def verifier(self) -> bytes:
        """The public key, which is stored in the metadata and at the bookies; empty for a ledger without a password."""
        return self._private.public_key().public_bytes_raw() if self._private else b""

    def credential(self, purpose: Purpose, incarnation: str, nonce: bytes = b"") -> Credential:
        """Signs a credential for requests to one bookie on one append stream, given the bookie's incarnation and the
        stream's nonce."""
        if self._private is None:
            return NO_CREDENTIAL
        proof = self._private.sign(statement(purpose, self._ledger_id, incarnation, nonce))
        return Credential(self.verifier, proof)


def _derived(ledger_id: int, secret: bytes, label: bytes) -> bytes:
    """Derives a key with HKDF-SHA256 (RFC 5869): the extract step, and one expand step."""
    extracted = hmac.digest(b"bookledger", secret, hashlib.sha256)
    return hmac.digest(extracted, label + _ID.pack(ledger_id) + b"\x01", hashlib.sha256)
