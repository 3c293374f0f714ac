"""Makes and verifies proofs that a client knows a ledger's password. The proofs are Ed25519 signatures.

A ledger with a password has an Ed25519 key pair that is derived from the password and the ledger's id
(`ledgers/integrity/ledger_keys.py`). The private key never leaves the client; bookies and the metadata store the public
key, the ledger's *verifier*. A proof is a signature over

    purpose | ledger id | nonce of the append stream | incarnation of the bookie

so it cannot be replayed for another ledger or at another bookie, and a proof for appending cannot be replayed on
another stream either. A proof for a fence has no nonce, because a repeated fence changes nothing. A proof for a read
has none, because an eavesdropper who can see the proof can also see the data that is read with it, and TLS hides both.

When a bookie re-replicates, it authenticates its reads with its own key (`BookieKey`). Its registration contains the
public key, and only bookies may write registrations.
"""

from __future__ import annotations

import struct
from enum import Enum

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from .messages import NO_CREDENTIAL, PROOF_BYTES, VERIFIER_BYTES, Credential

NONCE_BYTES = 16
"""Size of the nonce that a bookie sends with the server hello of each connection."""

PROOFS_KEPT_MAX = 16_384
"""Maximum number of ledgers per stream whose verified proofs are cached; beyond that, all proofs are verified again."""

_LEDGER = struct.Struct("<q")


class Purpose(Enum):
    """The action that a proof authorizes."""

    APPEND = b"bookledger append"
    FENCE = b"bookledger fence."
    READ = b"bookledger read.."


def statement(purpose: Purpose, ledger_id: int, incarnation: str, nonce: bytes = b"") -> bytes:
    """Returns the bytes whose signature is the proof."""
    return b"".join(
        (purpose.value, _LEDGER.pack(ledger_id), nonce.ljust(NONCE_BYTES, b"\0"), incarnation.encode())
    )


def is_proven(credential: Credential, signed: bytes) -> bool:
    """Returns whether the proof matches its verifier; a blank credential claims nothing and is valid."""
    if credential == NO_CREDENTIAL:
        return True
    if len(credential.verifier) != VERIFIER_BYTES or len(credential.proof) != PROOF_BYTES:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(credential.verifier).verify(credential.proof, signed)
    except (InvalidSignature, ValueError):
        return False
    return True


class BookieKey:
    """Key pair for one run of a bookie, used to prove to other bookies that it is a bookie."""

    def __init__(self) -> None:
        self._private = Ed25519PrivateKey.generate()

    @property
    def verifier(self) -> bytes:
        """Public key for the bookie's registration."""
        return self._private.public_key().public_bytes_raw()

    def credential(self, ledger_id: int, incarnation: str) -> Credential:
        """Makes a proof for reading a ledger at the bookie with this incarnation."""
        return Credential(self.verifier, self._private.sign(statement(Purpose.READ, ledger_id, incarnation)))


class StreamProofs:
    """Verifies the proofs for one purpose on one connection, and caches them, because every request contains the same
    proof."""

    def __init__(self, incarnation: str, nonce: bytes, purpose: Purpose = Purpose.APPEND) -> None:
        self._incarnation = incarnation
        self._nonce = nonce
        self._purpose = purpose
        self._checked: dict[int, Credential] = {}

    def knows(self, ledger_id: int, credential: Credential) -> bool:
        """Returns whether exactly this credential was verified before."""
        return self._checked.get(ledger_id) == credential

    def hold(self, ledger_id: int, credential: Credential) -> bool:
        """Returns whether the credential's proof is valid for this purpose, ledger, bookie and stream."""
        if credential == NO_CREDENTIAL or self.knows(ledger_id, credential):
            return True
        signed = statement(self._purpose, ledger_id, self._incarnation, self._nonce)
        if not is_proven(credential, signed):
            return False
        if len(self._checked) >= PROOFS_KEPT_MAX:
            self._checked.clear()
        self._checked[ledger_id] = credential
        return True
