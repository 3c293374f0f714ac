"""Verifies the password proofs of one connection, a bounded number per loop iteration; the first invalid proof ends the
connection."""

from __future__ import annotations

from ...wire.credentials import Purpose, StreamProofs, is_proven
from ...wire.messages import NO_CREDENTIAL, Credential
from .admission import Guard

FALSE_PROOF = "the client sent a false proof"


class PeerProofs:
    """Proofs of one connection. `is_false` is set after an invalid proof: the connection then ends once the request is
    answered."""

    def __init__(self, guard: Guard, peer: str, incarnation: str, nonce: bytes) -> None:
        self._guard = guard
        self._peer = peer
        self._stream = StreamProofs(incarnation, nonce)
        self._readers = StreamProofs(incarnation, b"", Purpose.READ)
        self.is_false = False

    def knows(self, ledger_id: int, credential: Credential) -> bool:
        """Returns whether an append with this credential needs no check."""
        return credential == NO_CREDENTIAL or self._stream.knows(ledger_id, credential)

    async def may_append(self, ledger_id: int, credential: Credential) -> bool:
        """Returns whether the credential is valid for appending to this ledger on this connection."""
        if self.knows(ledger_id, credential):
            return True
        await self._guard.proofs.take()
        return self._noted(self._stream.hold(ledger_id, credential))

    async def may_read(self, ledger_id: int, credential: Credential) -> bool:
        """Returns whether the credential is valid for reading this ledger."""
        if self._readers.knows(ledger_id, credential):
            return True
        await self._guard.proofs.take()
        return self._noted(self._readers.hold(ledger_id, credential))

    async def is_proven(self, credential: Credential, signed: bytes) -> bool:
        """Returns whether the proof matches its verifier; a blank credential claims nothing and is always accepted."""
        if credential == NO_CREDENTIAL:
            return True
        await self._guard.proofs.take()
        return self._noted(is_proven(credential, signed))

    def _noted(self, holds: bool) -> bool:
        if not holds and not self.is_false:
            self.is_false = True
            self._guard.suspects.was_false(self._peer)
        return holds
