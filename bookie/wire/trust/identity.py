"""Who a certificate says that its owner is: a role and a name, from the subject's alternative names.

Certificates made for this purpose carry a URI, `urn:bookledger:ROLE:NAME`. For those of another authority a file maps
any alternative name to a role and a name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from metadata.audit import DONE, Act, tell

from .roles import EVERYTHING, MAY, Right, Role

URN = "urn:bookledger:"

NAME_CHARACTERS_MAX = 200


class NoIdentity(ValueError):
    """A certificate that names nobody, or more than one."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Somebody with a certificate."""

    role: Role
    name: str

    @property
    def rights(self) -> frozenset[Right]:
        return MAY[self.role]

    @property
    def urn(self) -> str:
        return f"{URN}{self}"

    def __str__(self) -> str:
        return f"{self.role.value}:{self.name}"


@dataclass(frozen=True, slots=True)
class Peer:
    """Who asks: an address, an identity where there are certificates, and what it may do."""

    address: str
    identity: Identity | None = None
    rights: frozenset[Right] = EVERYTHING

    def may_not(self, right: Right) -> str:
        """Why it may not do this; empty where it may."""
        if right in self.rights:
            return ""
        roles = " or ".join(role.value for role in Role if right in MAY[role])
        return (
            f"{self.identity or self.address} may not {right.value}: that takes a certificate of role {roles}"
        )

    def tell(self, act: Act, outcome: str = DONE, **about: int | str | None) -> None:
        """Tells the audit log what it did, or was refused."""
        tell(act, outcome, who=str(self.identity or ""), where=self.address, **about)


NOBODY = Peer("a stranger on this host", rights=frozenset())


def parse_identity(text: str) -> Identity:
    """Of "role:name". Raises NoIdentity."""
    role, _, name = text.partition(":")
    is_name = 0 < len(name) <= NAME_CHARACTERS_MAX and name.isascii() and name.isprintable()
    if role not in list(Role) or not is_name:
        told = text[:NAME_CHARACTERS_MAX]
        raise NoIdentity(f"{told!r} is no ROLE:NAME in ASCII; roles are {', '.join(Role)}")
    return Identity(Role(role), name)


def identity_of(certificate: Mapping[str, Any] | None, names: Mapping[str, str]) -> Identity:
    """Of a certificate as `ssl` describes it. `names` maps alternative names, such as "DNS:nn1", to "role:name".

    Raises NoIdentity.
    """
    found = set(_identities(certificate or {}, names))
    if len(found) != 1:
        told = "names nobody" if not found else f"names {', '.join(sorted(map(str, found)))} at once"
        raise NoIdentity(f"the certificate {told}; it needs one alternative name {URN}ROLE:NAME")
    return found.pop()


def _identities(certificate: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[Identity]:
    for kind, value in certificate.get("subjectAltName", ()):
        if kind == "URI" and value.startswith(URN):
            yield parse_identity(value.removeprefix(URN))
        elif (mapped := names.get(f"{'IP' if kind == 'IP Address' else kind}:{value}")) is not None:
            yield parse_identity(mapped)
