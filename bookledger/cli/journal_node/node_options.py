"""Command-line options of a JournalNode. Imports none of the JournalNode's code."""

from __future__ import annotations

from dataclasses import dataclass

import click

from ...admin.http_option import HttpAddress

HTTP_PORT = 8480
"""Hadoop's default port."""


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """A JournalNode in a bookie's process: its addresses, and its name if that is not the bookie's."""

    rpc: HttpAddress
    http: HttpAddress | None
    name: str | None

    @property
    def http_address(self) -> HttpAddress:
        return self.http or HttpAddress(self.rpc.host, HTTP_PORT if self.rpc.port else 0)


def check_may_listen(option: str, address: HttpAddress, *, insecure: bool) -> None:
    """Raises UsageError for an address that other machines can reach, unless `insecure` is set."""
    if not address.is_loopback and not insecure:
        raise click.UsageError(
            f"{option} {address.host} is reachable from other machines, and Hadoop's simple authentication trusts "
            "every client that reaches it; give a loopback address, or --insecure to serve it anyway"
        )
