"""The bookies of a new ledger."""

from __future__ import annotations

from metadata import placement
from metadata.records import bookie_registry
from metadata.records.ledger_record import BookieRef, Shape

from ..cluster import Cluster
from ..errors import NotEnoughBookies
from .signs_of_life import choose_alive


async def choose_ensemble(cluster: Cluster, shape: Shape) -> tuple[BookieRef, ...]:
    """Living bookies, every write set on as many fault domains as can be.

    Raises NotEnoughBookies, also where these are fewer than `fault_domains_min`, and MetadataError.
    """
    registered = await bookie_registry.list_bookies(cluster.store)
    rejected = {r.bookie.bookie_id: "is read-only" for r in registered if not r.writable}
    candidates = [r for r in registered if r.writable]
    found = await choose_alive(cluster, candidates, shape.ensemble_size, (), rejected)
    usable = [str(r.bookie) for r in found]
    if len(found) < shape.ensemble_size:
        raise NotEnoughBookies(f"a new ledger of ensemble size {shape.ensemble_size}", rejected, usable)
    ensemble = placement.arranged(found, shape.write_quorum)
    domains = placement.fewest_domains(ensemble, shape.write_quorum)
    if domains < cluster.config.fault_domains_min:
        wanted = f"copies in {cluster.config.fault_domains_min} fault domains, where these have {domains}"
        raise NotEnoughBookies(wanted, rejected, usable)
    return tuple(r.bookie for r in ensemble)
