"""All hosts of a run, and what happens to them."""

from __future__ import annotations

from pathlib import Path

from bookie.serving.directory import format_directory
from metadata.errors import MetadataError
from tests.simulation.engine.processes import PROCESS
from tests.simulation.shells.metadata import VirtualStore
from tests.simulation.shells.sockets import Sockets

from .host import Host
from .machine import Machine
from .seen import Seen
from .site import ClusterSite

OPERATOR = "operator"


class Hosts:
    """By name; `sockets` knows all connections that were opened."""

    def __init__(self, site: ClusterSite) -> None:
        self.site = site
        self.seen = Seen(site)
        self.sockets = Sockets(site)
        self.by_name: dict[str, Host] = {}
        for name in site.plan.host_names:
            machine = Machine(site.host_loop, name, site.plan.seed, site.directory / name)
            self.by_name[name] = Host(site, self.seen, name, machine)

    @property
    def here(self) -> Host:
        """Where the present code runs."""
        process = PROCESS.get()
        assert process is not None
        return self.by_name[process.name.split("/")[0]]

    def machine_of(self, directory: Path) -> Machine:
        return next(host.machine for host in self.by_name.values() if host.machine.directory == directory)

    async def format(self, host: Host, *, replace: bool = False) -> None:
        """As an operator does, who tries again until it is done."""
        while True:
            store = VirtualStore(self.site.metadata, OPERATOR)
            try:
                name = host.machine.directory.name
                await format_directory(host.machine.directory, name, store, replace=replace, wait=True)
                return
            except (MetadataError, OSError) as error:
                host.note("cannot be formatted: %s", error)
            finally:
                await store.close()

    async def begin(self) -> None:
        """All are formatted, and up."""
        for host in self.by_name.values():
            await self.format(host)
            host.start()
        for host in self.by_name.values():
            await host.is_ready.wait()

    def close(self) -> None:
        for host in self.by_name.values():
            host.machine.close_index()
