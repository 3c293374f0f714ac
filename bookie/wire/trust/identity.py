"""Reads an identity (a role and a name) from a certificate's subject alternative names.

Certificates made for this purpose contain a URI, `urn:bookledger:ROLE:NAME`. For certificates of another authority, a
file maps any alternative name to a role and a name. With the suffix `?owner=OWNER`, the identity may use only that
owner's ledgers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from metadata.audit import DONE, Act, record_audit

from .roles import EVERYTHING, MAY, Right, Role

URN = "urn:bookledger:"

NAME_CHARACTERS_MAX = 200

OWNED_BY = "?owner="
"""Separator between a name and an owner."""

CONFINED = frozenset({Role.CLIENT, Role.READER, Role.JOURNAL})
"""Roles that can be restricted to an owner's ledgers; all other roles need access to every ledger."""


class NoIdentity(ValueError):
    """A certificate without an identity, or with more than one."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The role and name that a certificate specifies."""

    role: Role
    name: str
    owner: str = ""
    """Owner whose ledgers the identity may use; "" for all ledgers."""

    @property
    def rights(self) -> frozenset[Right]:
        return MAY[self.role]

    @property
    def urn(self) -> str:
        return f"{URN}{self}"

    def __str__(self) -> str:
        return f"{self.role.value}:{self.name}" + (f"{OWNED_BY}{self.owner}" if self.owner else "")


@dataclass(frozen=True, slots=True)
class Peer:
    """The sender of a request: its address, its identity if certificates are used, and its rights."""

    address: str
    identity: Identity | None = None
    rights: frozenset[Right] = EVERYTHING

    @classmethod
    def of(cls, address: str, identity: Identity | None) -> Peer:
        """Makes a peer with the rights of its certificate; with all rights if certificates are not used."""
        return cls(address) if identity is None else cls(address, identity, identity.rights)

    @property
    def owner(self) -> str:
        """Owner whose ledgers the peer may use; "" for all ledgers."""
        return "" if self.identity is None else self.identity.owner

    def may_not(self, right: Right) -> str:
        """Explains why the peer lacks this right; returns "" if the peer has the right."""
        if right in self.rights:
            return ""
        roles = " or ".join(role.value for role in Role if right in MAY[role])
        return (
            f"{self.identity or self.address} may not {right.value}: that takes a certificate of role {roles}"
        )

    def record_audit(self, act: Act, outcome: str = DONE, **about: int | str | None) -> None:
        """Writes an action of the peer, or the refusal of one, to the audit log."""
        record_audit(act, outcome, who=str(self.identity or ""), where=self.address, **about)


NOBODY = Peer("a stranger on this host", rights=frozenset())


def parse_identity(text: str) -> Identity:
    """Parses "role:name", or "role:name?owner=owner". Raises NoIdentity."""
    role, _, rest = text.partition(":")
    name, is_confined, owner = rest.partition(OWNED_BY)
    described = text[:NAME_CHARACTERS_MAX]
    if "?" in name or "?" in owner or "owner=" in name.lower():
        raise NoIdentity(
            f"{described!r}: an identity restricted to an owner's ledgers is ROLE:NAME{OWNED_BY}OWNER, with a single ?"
        )
    if role not in list(Role) or not is_name(name):
        raise NoIdentity(f"{described!r} is not ROLE:NAME in ASCII; roles are {', '.join(Role)}")
    if is_confined and not is_name(owner):
        raise NoIdentity(f"{described!r} has no owner in ASCII after {OWNED_BY}")
    if is_confined and role not in CONFINED:
        roles = ", ".join(sorted(CONFINED))
        raise NoIdentity(
            f"{described!r}: a {role} cannot be restricted to an owner's ledgers; only {roles} can"
        )
    return Identity(Role(role), name, owner)


def is_name(text: str) -> bool:
    """Returns whether the text is valid as a name, or as an owner."""
    return 0 < len(text) <= NAME_CHARACTERS_MAX and text.isascii() and text.isprintable()


def identity_of(certificate: Mapping[str, Any] | None, names: Mapping[str, str]) -> Identity:
    """Reads the identity from a certificate in the form that `ssl` gives.

    `names` maps alternative names, such as "DNS:nn1", to "role:name". Raises NoIdentity.
    """
    found = set(_identities(certificate or {}, names))
    if len(found) != 1:
        described = (
            "names nobody" if not found else f"names several identities, {', '.join(sorted(map(str, found)))}"
        )
        raise NoIdentity(f"the certificate {described}; it needs one alternative name {URN}ROLE:NAME")
    return found.pop()


def _identities(certificate: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[Identity]:
    for kind, value in certificate.get("subjectAltName", ()):
        if kind == "URI" and value.startswith(URN):
            yield parse_identity(value.removeprefix(URN))
        elif (mapped := names.get(f"{'IP' if kind == 'IP Address' else kind}:{value}")) is not None:
            yield parse_identity(mapped)
