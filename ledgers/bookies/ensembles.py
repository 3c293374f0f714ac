"""Chooses the ensemble of a new ledger."""

from __future__ import annotations

from collections.abc import Sequence

from metadata import placement
from metadata.records.ledger_record import BookieRef, Shape
from metadata.records.registration import Registration

from ..cluster import Cluster
from ..creating.known_bookies import Listed
from ..errors import NotEnoughBookies
from .health_probes import NOT_WRITABLE, choose_alive


async def choose_ensemble(cluster: Cluster, shape: Shape) -> tuple[BookieRef, ...]:
    """Chooses live bookies, with every write set spread over as many fault domains as possible.

    Raises NotEnoughBookies, also for fewer domains than `fault_domains_min`, and MetadataError.
    """
    listed = await cluster.known_bookies.lately()
    try:
        return await _chosen(cluster, shape, listed)
    except NotEnoughBookies:
        if listed.is_fresh:
            raise
    return await _chosen(cluster, shape, await cluster.known_bookies.now())


async def _chosen(cluster: Cluster, shape: Shape, listed: Listed) -> tuple[BookieRef, ...]:
    rejected = {r.bookie.bookie_id: NOT_WRITABLE for r in listed.bookies if not r.writable}
    candidates = [r for r in listed.bookies if r.writable]
    found = await choose_alive(cluster, candidates, shape.ensemble_size, (), rejected)
    if (
        _domains(found, shape) < cluster.config.fault_domains_min
    ):  # a domain may have only bookies that failed lately
        found = await choose_alive(cluster, candidates, shape.ensemble_size, (), rejected, avoids=False)
    usable = [str(r.bookie) for r in found]
    if len(found) < shape.ensemble_size:
        raise NotEnoughBookies(f"a new ledger of ensemble size {shape.ensemble_size}", rejected, usable)
    if (domains := _domains(found, shape)) < cluster.config.fault_domains_min:
        wanted = f"copies in {cluster.config.fault_domains_min} fault domains, where these have {domains}"
        raise NotEnoughBookies(wanted, rejected, usable)
    return tuple(r.bookie for r in placement.arranged(found, shape.write_quorum))


def _domains(found: Sequence[Registration], shape: Shape) -> int:
    """Fault domains of the write set that has the fewest; 0 if there are too few bookies for an ensemble."""
    if len(found) < shape.ensemble_size:
        return 0
    return placement.fewest_domains(placement.arranged(found, shape.write_quorum), shape.write_quorum)
