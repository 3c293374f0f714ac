"""A ledger's keys: they follow from password and id, and prove one thing to one bookie."""

from __future__ import annotations

import pytest

from bookie.wire import NO_CREDENTIAL, Credential
from bookie.wire.credentials import PROOFS_KEPT_MAX, Purpose, StreamProofs, is_proven, statement
from ledgers.integrity.ledger_keys import LedgerKey, digest_key

NONCE = b"0123456789abcdef"
KEY = LedgerKey(7, b"secret")
FENCE = statement(Purpose.FENCE, 7, "i1")


def test_a_verifier_tells_a_wrong_password_from_the_right_one() -> None:
    """It is kept in the metadata and by bookies; without a password there is nothing to tell."""
    assert LedgerKey(7, b"secret").verifier == KEY.verifier
    assert LedgerKey(7, b"Secret").verifier != KEY.verifier != LedgerKey(8, b"secret").verifier
    assert LedgerKey(7, b"").verifier == b""


def test_no_key_can_be_read_off_another() -> None:
    keys = {digest_key(7, b"secret"), digest_key(8, b"secret"), digest_key(7, b"Secret"), KEY.verifier}
    assert len(keys) == 4


def test_a_proof_holds_for_what_it_was_made_for() -> None:
    assert is_proven(KEY.credential(Purpose.FENCE, "i1"), FENCE)


@pytest.mark.parametrize(
    "signed",
    [
        statement(Purpose.FENCE, 8, "i1"),
        statement(Purpose.FENCE, 7, "i2"),
        statement(Purpose.APPEND, 7, "i1"),
        statement(Purpose.FENCE, 7, "i1", NONCE),
    ],
    ids=["another ledger", "another bookie", "another purpose", "another stream"],
)
def test_a_proof_holds_for_nothing_else(signed: bytes) -> None:
    assert not is_proven(KEY.credential(Purpose.FENCE, "i1"), signed)


def test_nobody_proves_a_verifier_with_another_key() -> None:
    forged = LedgerKey(7, b"guess").credential(Purpose.FENCE, "i1")._replace(verifier=KEY.verifier)
    assert not is_proven(forged, FENCE)


@pytest.mark.parametrize(
    "credential",
    [
        Credential(b"v" * 32, b""),
        Credential(b"", b"p" * 64),
        Credential(b"v" * 31, b"p" * 64),
        Credential(b"\xff" * 32, b"p" * 64),
    ],
)
def test_what_is_no_credential_proves_nothing(credential: Credential) -> None:
    assert not is_proven(credential, FENCE)


def test_a_ledger_without_a_password_asks_for_no_proof() -> None:
    assert LedgerKey(7, b"").credential(Purpose.APPEND, "i1", NONCE) == NO_CREDENTIAL
    assert is_proven(NO_CREDENTIAL, FENCE)


def test_a_stream_forgets_proofs_past_its_bound_and_checks_them_again() -> None:
    proofs = StreamProofs("i1", NONCE)
    credential = KEY.credential(Purpose.APPEND, "i1", NONCE)
    assert proofs.hold(7, credential)
    proofs._checked.update((n, credential) for n in range(100, 99 + PROOFS_KEPT_MAX))
    other = LedgerKey(8, b"secret").credential(Purpose.APPEND, "i1", NONCE)
    assert proofs.hold(8, other)
    assert len(proofs._checked) == 1
    assert proofs.hold(7, credential)
    assert not proofs.hold(7, other)
