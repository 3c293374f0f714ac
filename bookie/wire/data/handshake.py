"""Handshake: client hello and server hello, with version negotiation. Both are JSON, sent once per connection.

A version is one number. The bookie chooses the highest version that both sides speak; if there is none, it sends the
versions that it speaks and ends the connection. Unknown JSON members are ignored, so that later versions can add
members.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from .framing import Body

PROTOCOL = "bookledger data"
VERSION_MIN = 1
VERSION_MAX = 1


class BadHandshake(ValueError):
    """A hello that is malformed or cannot be accepted."""


@dataclass(frozen=True, slots=True)
class ClientHello:
    """Client hello: the versions that the client speaks."""

    version_min: int = VERSION_MIN
    version_max: int = VERSION_MAX

    def encode(self) -> bytes:
        return _encoded(version_min=self.version_min, version_max=self.version_max)


@dataclass(frozen=True, slots=True)
class ServerHello:
    """Server hello: the chosen version, the bookie's incarnation, and the nonce to be signed in proofs on this
    connection."""

    version: int
    incarnation: str
    nonce: bytes

    def encode(self) -> bytes:
        return _encoded(version=self.version, incarnation=self.incarnation, nonce=self.nonce.hex())


def decode_hello(body: Body) -> ClientHello:
    """Decodes a client hello. Raises BadHandshake."""
    found = _decoded(body)
    return ClientHello(_number(found, "version_min"), _number(found, "version_max"))


def decode_server_hello(body: Body) -> ServerHello:
    """Decodes a server hello. Raises BadHandshake."""
    found = _decoded(body)
    try:
        nonce = bytes.fromhex(str(found["nonce"]))
    except (KeyError, ValueError) as error:
        raise BadHandshake(f"a server hello without a nonce: {error}") from None
    return ServerHello(_number(found, "version"), str(found.get("incarnation", "")), nonce)


def chosen_version(hello: ClientHello) -> int:
    """Returns the highest version that both sides speak. Raises BadHandshake."""
    version = min(hello.version_max, VERSION_MAX)
    if version < max(hello.version_min, VERSION_MIN):
        raise BadHandshake(
            f"the bookie speaks versions {VERSION_MIN} to {VERSION_MAX} of the data protocol, but was offered "
            f"{hello.version_min} to {hello.version_max}: run programs of one version"
        )
    return version


def check_offered(hello: ServerHello) -> None:
    """Raises BadHandshake if the bookie has chosen a version that clients do not speak."""
    if not VERSION_MIN <= hello.version <= VERSION_MAX:
        raise BadHandshake(
            f"the bookie has chosen version {hello.version} of the data protocol, but was offered {VERSION_MIN} to "
            f"{VERSION_MAX}"
        )


def _encoded(**members: object) -> bytes:
    return json.dumps({"protocol": PROTOCOL, **members}, separators=(",", ":")).encode()


def _decoded(body: Body) -> dict[str, object]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadHandshake(f"not a hello of the data protocol: {error}") from None
    if not isinstance(found, dict) or found.get("protocol") != PROTOCOL:
        raise BadHandshake("not a hello of the data protocol")
    return found


def _number(found: dict[str, object], name: str) -> int:
    number = found.get(name)
    if type(number) is not int or number < 0:
        raise BadHandshake(f"a hello without {name}")
    return number
