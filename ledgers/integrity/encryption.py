"""Client-side encryption of entries: AES-256-GCM over payloads, with a key that bookies never have.

    custom metadata "bookledger.encryption":  version u8, salt, check of the key

Every ledger has its own salt, and its key is derived from that salt and the application's key (HKDF-SHA256). A ledger
has only one writer during its lifetime, and the writer assigns each entry id to only one payload, so the id is used as
the nonce; recovery copies existing bytes. Ledger id and entry id are authenticated with each payload. The digest is
computed over the ciphertext, so bookies, recovery and re-replication need no key.
"""

from __future__ import annotations

import hmac
import secrets
import struct
from array import array
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from bookie.wire import ENTRY_BYTES_MAX, Columns
from metadata.records.ledger_record import LedgerRecord
from metadata.secret_file import KEY_FILE_VARIABLE, key_of_environment

from ..config import KEY_BYTES, ClientConfig
from ..errors import BadEncryptionKey, EntryUnreadable, LedgerError

ENCRYPTION = "bookledger.encryption"
"""The name of the encryption entry in the custom metadata."""

VERSION = 1
SALT_BYTES = 32
CHECK_BYTES = 16
TAG_BYTES = 16
"""Number of bytes that encryption adds to a payload."""

_NONCE = struct.Struct(">4xq")
_PLACE = struct.Struct(">qq")


class Cipher:
    """Encrypts and decrypts the payloads of one ledger."""

    def __init__(self, ledger_id: int, key: bytes) -> None:
        self._ledger_id = ledger_id
        self._aead = AESGCM(key)

    def seal(self, first_entry: int, payloads: Sequence[bytes]) -> list[bytes]:
        """Encrypts the payloads of consecutive entries, for sending to bookies."""
        encrypt, nonce, place, ledger_id = self._aead.encrypt, _NONCE.pack, _PLACE.pack, self._ledger_id
        return [encrypt(nonce(n), p, place(ledger_id, n)) for n, p in enumerate(payloads, first_entry)]

    def open(self, columns: Columns) -> Columns:
        """Decrypts entries. Raises EntryUnreadable for bytes that were not encrypted with this key."""
        decrypt, nonce, place, ledger_id = self._aead.decrypt, _NONCE.pack, _PLACE.pack, self._ledger_id
        opened: list[bytes] = []
        try:
            for entry_id, payload, _ in columns.rows():
                opened.append(decrypt(nonce(entry_id), payload, place(ledger_id, entry_id)))
        except InvalidTag:
            why = "its digest is right, but it was not encrypted with this ledger's key"
            raise EntryUnreadable(ledger_id, columns.ids[len(opened)], {"decryption": why}) from None
        lengths = array("I", map(len, opened)).tobytes()
        return Columns(columns.entry_ids, lengths, columns.digests, b"".join(opened))


def entry_bytes_max(cipher: Cipher | None) -> int:
    """Returns the maximum payload size of an entry, in bytes."""
    return ENTRY_BYTES_MAX if cipher is None else ENTRY_BYTES_MAX - TAG_BYTES


def new_envelope(key: bytes) -> bytes:
    """Creates the encryption metadata of a new ledger: a salt, and a check value that identifies the right key."""
    salt = secrets.token_bytes(SALT_BYTES)
    return bytes([VERSION]) + salt + _derived(key, salt, b"check", CHECK_BYTES)


def encryption_key_of(config: ClientConfig) -> bytes | None:
    """Returns the application's key, from its configuration or environment; None for plaintext. Raises LedgerError."""
    if config.encryption_key is not None:
        return config.encryption_key or None
    try:
        return key_of_environment()
    except (OSError, ValueError) as error:
        raise LedgerError(f"the encryption key cannot be used: {error}") from error


def cipher_of(record: LedgerRecord, key: bytes | None) -> Cipher | None:
    """Returns the ledger's cipher; None for plaintext. Raises BadEncryptionKey for a missing or wrong key."""
    envelope = record.custom_metadata.get(ENCRYPTION)
    if envelope is None:
        return None
    if key is None:
        raise BadEncryptionKey(
            record.ledger_id, f"no key was given: set {KEY_FILE_VARIABLE} to the path of the key file"
        )
    if envelope[:1] != bytes([VERSION]) or len(envelope) != 1 + SALT_BYTES + CHECK_BYTES:
        raise BadEncryptionKey(
            record.ledger_id, "only the newer version or other program that encrypted them can read them"
        )
    salt, check = envelope[1 : 1 + SALT_BYTES], envelope[1 + SALT_BYTES :]
    if not hmac.compare_digest(check, _derived(key, salt, b"check", CHECK_BYTES)):
        raise BadEncryptionKey(record.ledger_id, "the given key is not the ledger's key")
    return Cipher(record.ledger_id, _derived(key, salt, b"entries", KEY_BYTES))


def _derived(key: bytes, salt: bytes, purpose: bytes, length: int) -> bytes:
    return HKDF(SHA256(), length, salt, b"bookledger " + purpose).derive(key)
