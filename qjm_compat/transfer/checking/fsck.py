"""Checks that a journal is complete: reads every copy of every segment, without fencing or disturbing a writer.

Performs three checks: of each acceptor individually (`acceptor_check`), of the acceptors against each other
(`agreement`), and for orphaned ledgers. A writer or a purge may be active during the check, so a problem counts only if
the acceptors did not change in that time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from metadata.records.journal_record import JournalStorage

from ...errors import JournalNotFormatted, JournalUnavailable
from ..inspection.acceptor_seen import AcceptorSeen
from ..inspection.inspector import JournalInspector
from .acceptor_check import AcceptorCheck
from .agreement import JOURNAL, check_agreement
from .journal_findings import JournalFindings
from .orphans import ORPHAN_AGE_SECONDS, find_orphans

ROUNDS_MAX = 3
"""Maximum number of attempts to check a journal that seems to have problems but changes during the check."""

OnBytes = Callable[[int], None]


async def check_journal(
    inspector: JournalInspector,
    *,
    deep: bool = False,
    orphan_age_seconds: float = ORPHAN_AGE_SECONDS,
    on_bytes: OnBytes = lambda _: None,
) -> JournalFindings:
    """Reads the complete journal and reports its problems. With `deep`, also decodes every op.

    Raises TransferRefused if no acceptor is formatted, or JournalUnavailable if the metadata fails during the check.
    """
    for _ in range(ROUNDS_MAX):
        seen, silent = await inspector.look_at_those_that_answer()
        found = await _check(inspector, seen, silent, deep=deep, on_bytes=on_bytes)
        if not found.problems or not await _has_changed(inspector, seen):
            break
    else:
        found.notes.append("the journal changed during every attempt: these problems may no longer exist")
    for uri in sorted({inspector.acceptors[name] for name in seen}):
        try:
            for orphan in await find_orphans(inspector, uri, found, orphan_age_seconds):
                found.orphan(JOURNAL, orphan)
        except JournalUnavailable as error:
            found.problem(JOURNAL, f"could not search for unreferenced ledgers: {error}")
    found.orphans_seen_at = time.monotonic()
    return found


async def _check(
    inspector: JournalInspector,
    seen: Mapping[str, AcceptorSeen],
    silent: Mapping[str, JournalUnavailable],
    *,
    deep: bool,
    on_bytes: OnBytes,
) -> JournalFindings:
    found = JournalFindings(acceptors=tuple(inspector.acceptors))
    if len(silent) == len(inspector.acceptors):
        raise next(iter(silent.values()))
    if not any(one.state.storage for one in seen.values()):
        raise JournalNotFormatted(inspector.journal_id)
    for name in inspector.acceptors:
        if name in silent:
            found.problem(f"acceptor {name}", silent[name])
        elif name not in seen:
            found.problem(
                f"acceptor {name}",
                "it is not formatted: `bookledger journal format` adds it to the others, `bookledger journal sync` "
                "copies what they have",
            )
        else:
            if seen[name].state.storage is None:
                found.problem(
                    f"acceptor {name}", "it is not formatted: an upgrade was started but not completed"
                )
            await AcceptorCheck(inspector, seen[name], found, deep=deep, on_bytes=on_bytes).run()
    _check_storage(seen, found)
    purged_below = {name: one.state.purged_below for name, one in seen.items()}
    check_agreement(found, purged_below, {*silent, *(name for name, one in seen.items() if one.unreadable)})
    return found


def _check_storage(seen: Mapping[str, AcceptorSeen], found: JournalFindings) -> None:
    """Checks that all acceptors hold edits of the same namespace."""
    different: dict[JournalStorage, list[str]] = {}
    for name, one in seen.items():
        if one.state.storage is not None:
            different.setdefault(one.state.storage, []).append(name)
    if len(different) > 1:
        storages = "; ".join(f"{', '.join(names)}: {storage}" for storage, names in different.items())
        found.problem(JOURNAL, f"the acceptors are of different namespaces: {storages}")


async def _has_changed(inspector: JournalInspector, seen: Mapping[str, AcceptorSeen]) -> bool:
    now, _ = await inspector.look_at_those_that_answer()
    return {name: one.version for name, one in seen.items()} != {n: one.version for n, one in now.items()}
