"""Who a certificate says that its owner is."""

from __future__ import annotations

import pytest

from bookie.wire.trust.identity import Identity, NoIdentity, identity_of, parse_identity
from bookie.wire.trust.roles import EVERYTHING, MAY, Right, Role

ADA = Identity(Role.ADMIN, "ada")


def certificate(*names: tuple[str, str]) -> dict[str, object]:
    return {"subjectAltName": names}


def test_a_name_for_this_purpose_says_role_and_name() -> None:
    assert identity_of(certificate(("DNS", "h"), ("URI", "urn:bookledger:admin:ada")), {}) == ADA
    assert ADA.urn == "urn:bookledger:admin:ada"
    assert parse_identity("journal:nn:1") == Identity(Role.JOURNAL, "nn:1")


@pytest.mark.parametrize(("kind", "key"), [("DNS", "DNS:h1"), ("IP Address", "IP:h1"), ("URI", "URI:h1")])
def test_names_of_another_authority_are_mapped(kind: str, key: str) -> None:
    assert identity_of(certificate((kind, "h1"), ("DNS", "h2")), {key: "admin:ada"}) == ADA


@pytest.mark.parametrize(
    "names",
    [
        (),
        (("DNS", "urn:bookledger:admin:ada"),),
        (("URI", "urn:bookledger:client:ada"), ("URI", "urn:bookledger:admin:ada")),
        (("URI", "urn:bookledger:king:ada"),),
        (("URI", "urn:bookledger:admin:"),),
        (("URI", "urn:bookledger:admin"),),
        (("URI", "urn:bookledger:ADMIN:ada"),),
        (("URI", "urn:bookledger:admin:a\nb"),),
        (("URI", "urn:bookledger:admin:" + "a" * 201),),
    ],
)
def test_a_certificate_that_names_nobody_or_two_is_nobodys(names: tuple[tuple[str, str], ...]) -> None:
    with pytest.raises(NoIdentity):
        identity_of(certificate(*names), {})


def test_no_certificate_is_nobodys() -> None:
    with pytest.raises(NoIdentity):
        identity_of(None, {})


def test_every_role_has_rights_and_only_an_admin_may_do_everything() -> None:
    assert MAY.keys() == set(Role)
    assert [role for role, rights in MAY.items() if rights == EVERYTHING] == [Role.ADMIN]
    assert [role for role, rights in MAY.items() if Right.MAINTAIN in rights] == [Role.ADMIN]
    assert Right.FENCE not in MAY[Role.READER] and Right.APPEND not in MAY[Role.READER]
