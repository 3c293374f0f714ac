"""Sealing payloads: what comes back, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie.wire import Columns, of_payloads
from ledgers import BadEncryptionKey, ClientConfig, EntryUnreadable
from ledgers.integrity.encryption import (
    ENCRYPTION,
    TAG_BYTES,
    Cipher,
    cipher_of,
    new_envelope,
)
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, Shape
from metadata.secret_file import key_of_environment, read_key

KEY, OTHER = bytes(range(32)), bytes(32)


def record_of(ledger_id: int, envelope: bytes | None) -> LedgerRecord:
    custom = {} if envelope is None else {ENCRYPTION: envelope}
    ensemble = (BookieRef("b1", "i1"),)
    return LedgerRecord(ledger_id, Shape(1, 1, 1), (Fragment(0, ensemble),), custom_metadata=custom)


def sealed(cipher: Cipher, first: int, payloads: list[bytes]) -> Columns:
    return of_payloads(first, cipher.seal(first, payloads), bytes(4 * len(payloads)))


@given(st.integers(0, 2**63 - 20), st.lists(st.binary(max_size=200), min_size=1, max_size=10))
def test_what_was_sealed_is_opened_and_grows_by_a_tag(first: int, payloads: list[bytes]) -> None:
    cipher = Cipher(7, KEY)
    columns = sealed(cipher, first, payloads)
    assert list(columns.sizes) == [len(payload) + TAG_BYTES for payload in payloads]
    opened = cipher.open(columns)
    opened.check()
    assert [bytes(payload) for _, payload, _ in opened.rows()] == payloads
    assert list(opened.ids) == list(range(first, first + len(payloads)))


def test_no_two_entries_and_no_two_ledgers_give_the_same_bytes() -> None:
    first, second = Cipher(7, KEY).seal(0, [b"same", b"same"])
    assert first != second
    assert Cipher(8, KEY).seal(0, [b"same"])[0] != first
    one, other = (cipher_of(record_of(7, new_envelope(KEY)), KEY) for _ in range(2))
    assert one is not None and other is not None
    assert one.seal(0, [b"same"]) != other.seal(0, [b"same"]), "a ledger made anew has another salt"


@pytest.mark.parametrize("change", ["a byte", "another entry", "another ledger", "another key", "too short"])
def test_what_was_not_sealed_so_is_refused_with_the_entry(change: str) -> None:
    cipher = Cipher(7, KEY)
    payloads = cipher.seal(3, [b"a", b"b", b"c"])
    opener = {"another ledger": Cipher(8, KEY), "another key": Cipher(7, OTHER)}.get(change, cipher)
    if change == "a byte":
        payloads[1] = bytes([payloads[1][0] ^ 1]) + payloads[1][1:]
    elif change == "another entry":
        payloads[1], payloads[2] = payloads[2], payloads[1]
    elif change == "too short":
        payloads[1] = b""
    with pytest.raises(EntryUnreadable, match="not encrypted with this ledger's key") as refused:
        opener.open(of_payloads(3, payloads, bytes(12)))
    assert refused.value.entry_id == (3 if opener is not cipher else 4)


def test_a_ledger_says_whether_a_key_is_its_own() -> None:
    envelope = new_envelope(KEY)
    assert KEY not in envelope
    assert cipher_of(record_of(7, None), KEY) is None
    assert cipher_of(record_of(7, envelope), KEY) is not None
    for key, why in ((None, "no key was given"), (OTHER, "the given key is not the ledger's key")):
        with pytest.raises(BadEncryptionKey, match=why):
            cipher_of(record_of(7, envelope), key)
    for unknown in (b"", b"\2" + envelope[1:], envelope + b"x"):
        with pytest.raises(BadEncryptionKey, match="newer version"):
            cipher_of(record_of(7, unknown), KEY)


@pytest.mark.parametrize("key", [b"short", bytes(33), "x" * 32, 5])
def test_a_key_of_another_size_is_refused_and_not_shown(key: object) -> None:
    with pytest.raises(ValueError, match=r"^encryption_key must be 32 bytes, b\"\" or None$"):
        ClientConfig(encryption_key=key)  # type: ignore[arg-type]


def test_no_configuration_shows_its_key() -> None:
    assert repr(KEY) not in repr(ClientConfig(encryption_key=KEY))


def test_a_key_is_read_from_a_file_for_its_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "key"
    path.write_text(KEY.hex() + "\n")
    path.chmod(0o644)
    with pytest.raises(ValueError, match="chmod 600"):
        read_key(str(path))
    path.chmod(0o600)
    assert read_key(str(path)) == KEY
    monkeypatch.delenv("BOOKLEDGER_KEY_FILE", raising=False)
    assert key_of_environment() is None
    monkeypatch.setenv("BOOKLEDGER_KEY_FILE", str(path))
    assert key_of_environment() == KEY
    for wrong in ("", "ab", "z" * 64, KEY.hex() + "00"):
        path.write_text(wrong)
        with pytest.raises(
            ValueError, match=re.escape(str(path)) + " contains no key: a key is 64"
        ) as refused:
            read_key(str(path))
        assert not wrong or wrong not in str(refused.value)
