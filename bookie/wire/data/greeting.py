"""How client and bookie begin: what each speaks, and who the bookie is. JSON, once per connection.

A version is one number. The bookie takes the highest that both speak, or says which it speaks and ends the connection.
Members that a side does not know are left alone, so that later versions can say more.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from .framing import Body

PROTOCOL = "bookledger data"
VERSION_MIN = 1
VERSION_MAX = 3

SCANS_SINCE = 2
"""Bookies of earlier versions know no scans."""

IDENTITIES_SINCE = 3
"""Bookies of earlier versions store entries and fences without the identity of their ledger (rule W8)."""


class BadGreeting(ValueError):
    """No greeting of this protocol, or none that can be answered."""


@dataclass(frozen=True, slots=True)
class Hello:
    """A client speaks these versions."""

    version_min: int = VERSION_MIN
    version_max: int = VERSION_MAX

    def encode(self) -> bytes:
        return _encoded(version_min=self.version_min, version_max=self.version_max)


@dataclass(frozen=True, slots=True)
class Welcome:
    """The version that was chosen, the bookie's incarnation, and the nonce that proofs on this connection sign."""

    version: int
    incarnation: str
    nonce: bytes

    def encode(self) -> bytes:
        return _encoded(version=self.version, incarnation=self.incarnation, nonce=self.nonce.hex())


def decode_hello(body: Body) -> Hello:
    """Raises BadGreeting."""
    found = _decoded(body)
    return Hello(_number(found, "version_min"), _number(found, "version_max"))


def decode_welcome(body: Body) -> Welcome:
    """Raises BadGreeting."""
    found = _decoded(body)
    try:
        nonce = bytes.fromhex(str(found["nonce"]))
    except (KeyError, ValueError) as error:
        raise BadGreeting(f"a welcome without a nonce: {error}") from None
    return Welcome(_number(found, "version"), str(found.get("incarnation", "")), nonce)


def chosen_version(hello: Hello) -> int:
    """The highest that both speak. Raises BadGreeting."""
    version = min(hello.version_max, VERSION_MAX)
    if version < max(hello.version_min, VERSION_MIN):
        raise BadGreeting(
            f"it speaks versions {VERSION_MIN} to {VERSION_MAX} of the data protocol, and was offered "
            f"{hello.version_min} to {hello.version_max}: run programs of one version"
        )
    return version


def _encoded(**members: object) -> bytes:
    return json.dumps({"protocol": PROTOCOL, **members}, separators=(",", ":")).encode()


def _decoded(body: Body) -> dict[str, object]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadGreeting(f"no greeting of the data protocol: {error}") from None
    if not isinstance(found, dict) or found.get("protocol") != PROTOCOL:
        raise BadGreeting("no greeting of the data protocol")
    return found


def _number(found: dict[str, object], name: str) -> int:
    number = found.get(name)
    if type(number) is not int or number < 0:
        raise BadGreeting(f"a greeting without {name}")
    return number
