"""A client of the simulated cluster that deletes the ledger."""

from __future__ import annotations

from tests.simulation.cores.site.metadata import Read

from .process import Client, Site

TRIES_MAX = 8
"""How often it asks; the store may be away, or the record may change under it."""


class Deleter(Client):
    """Deletes the ledger, whatever stands."""

    def __init__(self, site: Site, name: str) -> None:
        super().__init__(site, name)
        self._tries = TRIES_MAX
        self._ended = False

    @property
    def is_done(self) -> bool:
        return self._ended

    def begin(self) -> None:
        self._tries -= 1
        if self._tries <= 0:
            self._ended = True
        else:
            self.site.metadata.read(self.name, self.hears(self._found))

    def _found(self, read: Read | None) -> None:
        if read is None:
            self.begin()
        elif read.found is None:
            self._ended = True
        else:
            version = read.found.version
            self.site.metadata.delete(self.name, version, self.hears(self._deleted))

    def _deleted(self, gone: bool | None) -> None:
        if gone:
            self._ended = True
        else:
            self.begin()
