"""Which rules are broken, one at a time or in pairs, and how soon that is found."""

from __future__ import annotations

from tests.simulation.engine.planted import Plant

from . import in_reconciling as notes
from . import in_recovery as recovery
from . import in_writer as writer
from . import on_bookies as bookies

CANARY = Plant((bookies.acknowledges_before_it_is_on_disk,), 20, known=6)
"""Found by any twenty seeds: where it is not, the simulator itself is broken."""

PLANTS = (
    Plant((writer.sends_entries_to_the_wrong_bookies,), 50, known=8),
    Plant((writer.confirms_out_of_order,), 50, known=0),
    Plant((writer.counts_late_acks_of_replaced_bookies,), 1000, known=262),
    Plant((writer.does_not_withdraw_acks_of_replaced_bookies,), 2000, known=109),
    Plant((writer.does_not_send_pending_entries_again,), 200, known=45),
    Plant((writer.uses_new_bookies_before_the_change_stands,), 50, known=4),
    Plant((writer.confirms_while_a_change_is_in_flight,), 3000, known=21),
    Plant((writer.begins_the_fragment_behind_what_was_pushed,), 50, known=4),
    Plant((writer.writer_ignores_that_recovery_has_begun,), 200, known=4),
    Plant((writer.takes_an_unknown_outcome_for_success,), 100, known=3),
    Plant((writer.waits_for_the_slowest_bookie,), 20, known=0),
    Plant((writer.goes_on_when_it_is_fenced,), 4000, known=1234),
    Plant((writer.takes_written_for_durable,), 200, known=12),
    Plant((writer.closes_at_the_last_pushed_entry,), 200, known=10),
    Plant((writer.takes_any_close_for_its_own,), 500, known=92),
    Plant((writer.counts_an_absent_bookie_for_the_ack_quorum,), 200, known=6),
    Plant((writer.forgets_what_an_absent_bookie_lacks_once_it_is_back,), 3000, known=1042),
    Plant((recovery.reads_without_fencing,), 2000, known=54),
    Plant((recovery.takes_silence_for_absence,), 500, known=46),
    Plant((recovery.takes_an_io_error_for_absence,), 3000, known=541),
    Plant((recovery.takes_damage_for_absence,), 1000, known=46),
    Plant((recovery.one_absence_is_enough,), 200, known=9),
    Plant((recovery.puts_back_what_it_has_not_verified,), 2000, known=78),
    Plant((recovery.starts_before_the_last_fragment,), 500, known=141),
    Plant((recovery.does_not_wait_for_what_is_written_back,), 20, known=4),
    Plant((recovery.reads_from_the_changed_ensemble,), 4000, known=1754),
    Plant((recovery.publishes_its_ensemble_before_it_closes,), 50, known=18),
    Plant((recovery.recovery_tells_an_advancing_lac,), 100, known=6),
    Plant((recovery.keeps_to_its_end_when_another_was_faster,), 500, known=56),
    Plant((recovery.closes_without_comparing_versions,), 50, known=9),
    Plant((recovery.takes_another_change_for_its_own,), 100, known=4),
    Plant((recovery.reads_pages_without_checking_digests,), 1000, known=11),
    Plant((recovery.reads_past_what_is_confirmed,), 2000, known=112),
    Plant((notes.tells_nothing,), 400, known=31),
    Plant((notes.takes_the_oldest_note_of_a_fragment,), 1000, known=67),
    Plant((notes.takes_what_copies_lack_from_nowhere,), 1500, known=175),
    Plant((notes.closes_by_an_older_record,), 5000, known=823),
    Plant((notes.accepts_without_reconciling,), 200, known=7),
    Plant((notes.closes_through_a_hold,), 400, known=31),
    Plant((bookies.answers_a_fence_before_it_is_on_disk,), 100, known=2),
    Plant((bookies.forgets_a_fence_at_a_crash,), 50, known=3),
    Plant((bookies.forgets_a_fence_unseen,), 4000, known=1269),
    Plant((bookies.does_not_fence_what_it_has_never_seen,), 50, known=0),
    Plant((bookies.does_not_fence_what_it_has_never_seen_unseen,), 200, known=15),
    Plant((bookies.takes_adds_of_a_fenced_ledger,), 50, known=0),
    CANARY,
    Plant((bookies.goes_on_after_a_failed_sync,), 1000, known=5),
    Plant((bookies.forgets_an_entry_at_a_crash,), 50, known=5),
    Plant((bookies.forgets_an_entry_unseen,), 500, known=131),
    Plant((bookies.answers_for_another_incarnation,), 2000, known=245),
    Plant((bookies.omits_a_damaged_copy,), 2000, known=46),
)

SAFE_ALONE = (
    recovery.does_not_wait_until_enough_are_fenced,
    recovery.does_not_mark_the_record,
    notes.tells_of_the_first_fragment_only,  # who joins is told of the later ones
)
"""A second rule covers each of these, so that no schedule shows it (F22); the directed tests hold them."""

PAIRS = (
    Plant((recovery.does_not_wait_until_enough_are_fenced, recovery.reads_without_fencing), 500, known=22),
    Plant(
        (recovery.does_not_mark_the_record, recovery.keeps_to_its_end_when_another_was_faster), 200, known=4
    ),
    Plant((writer.goes_on_when_it_is_fenced, bookies.forgets_a_fence_unseen), 2000, known=191),
)
"""Found more often together than either alone."""
