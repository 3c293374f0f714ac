"""Candidates whose leases a test keeps, or lets run out, itself."""

from __future__ import annotations

from metadata.records.coordination.candidates import Candidate, CandidateStore, decode
from metadata.store import Lease, Versioned


async def enter(candidates: CandidateStore, name: str, since_ms: int, lease: Lease) -> Candidate:
    """Queues up, at the end. Raises LeaseLost."""
    key, value = candidates.entry(name, since_ms)
    return decode(Versioned(key, value, await candidates.store.create(key, value, lease=lease)))
