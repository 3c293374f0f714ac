"""What both sides say first."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie.wire.data.handshake import (
    VERSION_MAX,
    VERSION_MIN,
    BadHandshake,
    ClientHello,
    ServerHello,
    check_offered,
    chosen_version,
    decode_hello,
    decode_server_hello,
)


@given(low=st.integers(0, 9), high=st.integers(0, 9), nonce=st.binary(max_size=32), name=st.text(max_size=40))
def test_greetings_come_back_as_they_were_said(low: int, high: int, nonce: bytes, name: str) -> None:
    assert decode_hello(ClientHello(low, high).encode()) == ClientHello(low, high)
    assert decode_server_hello(ServerHello(low, name, nonce).encode()) == ServerHello(low, name, nonce)


def test_greetings_have_the_bytes_that_they_had_in_the_first_version() -> None:
    assert ClientHello(1, 1).encode() == b'{"protocol":"bookledger data","version_min":1,"version_max":1}'
    assert ServerHello(1, "i1", b"\x01\xff").encode() == (
        b'{"protocol":"bookledger data","version":1,"incarnation":"i1","nonce":"01ff"}'
    )


def test_what_a_later_version_says_more_is_left_alone() -> None:
    said = json.loads(ClientHello(1, 7).encode()) | {"namespace": "a", "limits": {"bytes": 5}}
    assert decode_hello(json.dumps(said).encode()) == ClientHello(1, 7)


def test_the_highest_version_that_both_speak_is_chosen() -> None:
    assert chosen_version(ClientHello(VERSION_MIN, VERSION_MAX)) == VERSION_MAX
    assert chosen_version(ClientHello(0, VERSION_MAX + 5)) == VERSION_MAX
    for hello in (ClientHello(VERSION_MAX + 1, VERSION_MAX + 2), ClientHello(0, VERSION_MIN - 1)):
        with pytest.raises(BadHandshake, match="run programs of one version"):
            chosen_version(hello)


def test_a_bookie_that_chooses_what_it_was_not_offered_is_refused() -> None:
    check_offered(ServerHello(VERSION_MAX, "i1", b""))
    for version in (VERSION_MIN - 1, VERSION_MAX + 1):
        with pytest.raises(
            BadHandshake, match=f"the bookie has chosen version {version} of the data protocol"
        ):
            check_offered(ServerHello(version, "i1", b""))


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"[]",
        b"{}",
        b"null",
        b"\xff\xfe",
        b'{"protocol":"another"}',
        b'{"protocol":"bookledger data"}',
        b'{"protocol":"bookledger data","version_min":true,"version_max":1}',
        b'{"protocol":"bookledger data","version_min":-1,"version_max":1}',
        b"[" * 4000,
    ],
)
def test_what_is_no_greeting_is_refused(said: bytes) -> None:
    with pytest.raises(BadHandshake):
        decode_hello(said)
    with pytest.raises(BadHandshake):
        decode_server_hello(said)
