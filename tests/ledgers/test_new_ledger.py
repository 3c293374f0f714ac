"""What a new ledger cannot be is said before anything is asked of bookies or metadata."""

from __future__ import annotations

from typing import Any

import pytest

from ledgers import DigestType, NewLedger


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"ensemble_size": 1.5}, "ensemble_size must be an int, not float"),
        ({"ack_quorum": True}, "ack_quorum must be an int, not bool"),
        ({"ledger_id": 1.0}, "ledger_id must be an int, not float"),
        ({"password": "secret"}, "a password must be bytes, not str"),
        ({"password": None}, "a password must be bytes, not NoneType"),
        ({"digest": None}, "the digest must be a DigestType, not None"),
        ({"digest": "crc32c"}, "the digest must be a DigestType, not 'crc32c'"),
        (
            {"custom_metadata": {"owner": "ada"}},
            "custom metadata must map names to bytes, but 'owner' maps to 'ada'",
        ),
        ({"custom_metadata": {1: b"x"}}, "custom metadata must map names to bytes, but 1 maps to b'x'"),
        ({"custom_metadata": ["owner"]}, r"custom metadata must map names to bytes, not \['owner'\]"),
    ],
)
def test_what_is_of_another_type_is_named(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        NewLedger(**asked)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"ensemble_size": 0}, "do not fit"),
        ({"write_quorum": 4}, "do not fit"),
        ({"ack_quorum": 2**70}, "do not fit"),
        ({"ledger_id": 2**63}, "is not a valid ledger id"),
        ({"ledger_id": -1}, "is not a valid ledger id"),
        ({"custom_metadata": {"x": b"x" * 65536}}, "exceeds 65536 bytes"),
        ({"custom_metadata": {"\ud800": b"x"}}, "is not valid UTF-8"),
        ({"digest": DigestType.HMAC_SHA256}, "needs a password"),
    ],
)
def test_what_does_not_fit_is_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        NewLedger(**asked)


def test_a_new_ledger_is_given_whole_or_by_the_arguments_of_create_ledger() -> None:
    assert NewLedger.of(None, {}) == NewLedger()
    assert NewLedger.of(None, {"ack_quorum": 3, "custom_metadata": {}}) == NewLedger(ack_quorum=3)
    assert NewLedger.of(NewLedger(ack_quorum=3), {}) == NewLedger(ack_quorum=3)
    with pytest.raises(TypeError, match="pass a NewLedger or ack_quorum, password, but not both"):
        NewLedger.of(NewLedger(), {"ack_quorum": 3, "password": b"x"})
