"""Parses `qjournal://h1:8485;h2:8485;h3:8485/ns1`: the JournalNodes and journal id, in the form configured in
NameNodes."""

from __future__ import annotations

from ...errors import BadRequest

SCHEME = "qjournal://"
NODES_MAX = 99
"""Maximum number of JournalNodes in one URI."""


def parse(uri: str) -> tuple[tuple[str, ...], str]:
    """Returns the addresses and the journal id. Raises BadRequest."""
    places, slash, journal_id = uri.removeprefix(SCHEME).partition("/")
    addresses = tuple(places.split(";"))
    journal_id = journal_id.partition("?")[0].rstrip("/")
    if not uri.startswith(SCHEME) or not slash or not journal_id or len(addresses) > NODES_MAX:
        raise BadRequest(f"{uri!r} is not qjournal://HOST:PORT;HOST:PORT;…/JOURNAL")
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise BadRequest(f"{address!r} in {uri!r} is not HOST:PORT")
    if len(set(addresses)) != len(addresses):
        raise BadRequest(f"{uri!r} lists a JournalNode twice")
    return addresses, journal_id
