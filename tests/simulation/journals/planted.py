"""Which rules of journals are broken on purpose, one at a time or in pairs, and how soon that is found."""

from __future__ import annotations

from tests.simulation.engine.planted import Plant

from . import planted_in_acceptors as acceptors
from . import planted_in_managers as managers

CANARY = Plant((managers.one_is_a_majority,), 20, known=1)
"""Found by any twenty seeds: where it is not, the simulator itself is broken."""

PLANTS = (
    CANARY,
    Plant((acceptors.promises_without_fencing,), 30, known=1),
    Plant((acceptors.fences_nobody,), 30, known=2),
    Plant((acceptors.keeps_a_promise_in_memory,), 200, known=22),
    Plant((acceptors.promises_the_same_epoch_twice,), 300, known=54),
    Plant((acceptors.does_not_look_at_epochs,), 30, known=2),
    # does_not_look_at_numbers: no seed finds it since a writer cannot begin its own segment again; Q9 does.
    Plant((acceptors.does_not_look_at_the_epoch_again,), 10_000, known=3494),
    Plant((acceptors.swaps_whatever_stands,), 300, known=15),
    Plant((acceptors.deletes_the_ledger_of_a_swap_without_an_answer,), 1_000, known=93),
    Plant((acceptors.forgets_segments_without_a_record,), 30, known=1),
    Plant((acceptors.purges_what_may_still_grow,), 3_000, known=509),
    Plant((acceptors.deletes_what_a_rollback_needs,), 2_000, known=24),
    Plant((acceptors.deletes_before_the_change_stands,), 300, known=14),
    Plant((acceptors.a_rollback_takes_promises_back,), 1_000, known=24),
    Plant((acceptors.a_format_takes_promises_back,), 1_000, known=86),
    Plant((acceptors.a_discard_forgets_what_it_discarded,), 300, known=22),
    Plant((acceptors.appends_behind_a_gap,), 2_000, known=356),
    Plant((acceptors.accepts_in_two_steps,), 4_000, known=376),
    Plant((acceptors.equal_ends_are_equal,), 1_000, known=12),
    Plant((acceptors.a_cache_keeps_what_was_overruled,), 15_000, known=9792),
    Plant((acceptors.batches_change_the_state,), 30, known=1),
    Plant((managers.writes_without_recovering,), 50, known=2),
    Plant((managers.recovers_without_accepting,), 50, known=2),
    Plant((managers.the_longest_copy_wins,), 2_000, known=914),
    Plant((managers.ignores_what_was_accepted,), 8_000, known=2188),
    Plant((managers.ignores_who_wrote_last,), 2_000, known=914),
    Plant((managers.takes_the_first_copy,), 1_000, known=188),
    Plant((managers.shows_what_is_not_durable,), 1_000, known=184),
    Plant((managers.counts_copies_of_different_writers,), 5_000, known=938),
    Plant((managers.follows_what_is_not_durable,), 500, known=100),
    Plant((managers.numbers_nothing,), 10, known=0),
    Plant((acceptors.finalizes_at_any_end, acceptors.finalizes_what_it_has_not_accepted), 5_000, known=1549),
)
"""Of the last two each covers for the other: an acceptor that has what was accepted has its end, too."""
