"""Which rules are broken, one at a time or in pairs."""

from __future__ import annotations

from tests.simulation.engine.planted import planted_in, together

from . import in_reconciling as notes
from . import in_recovery as recovery
from . import in_writer as writer
from . import on_bookies as bookies

CANARY = bookies.acknowledges_before_it_is_on_disk
"""Found by any twenty seeds: where it is not, the simulator itself is broken."""

SAFE_ALONE = (
    recovery.does_not_wait_until_enough_are_fenced,
    recovery.does_not_mark_the_record,
    notes.tells_of_the_first_fragment_only,  # who joins is told of the later ones
)
"""A second rule covers each of these, so that no schedule shows it (F22); the directed tests hold them."""

PAIRS = (
    together(
        recovery.does_not_wait_until_enough_are_fenced, recovery.reads_without_fencing, within=500, known=22
    ),
    together(
        recovery.does_not_mark_the_record,
        recovery.keeps_to_its_end_when_another_was_faster,
        within=200,
        known=4,
    ),
    together(writer.goes_on_when_it_is_fenced, bookies.forgets_a_fence_unseen, within=2000, known=191),
)
"""Found more often together than either alone."""

PLANTS = (*planted_in(writer, recovery, notes, bookies), *PAIRS)
