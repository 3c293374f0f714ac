"""Bugs planted in what only whole processes have, one at a time, to see that the runs find them."""

from __future__ import annotations

from tests.simulation.engine.planted import Plant
from tests.simulation.shells import planted as shells

from . import planted_in_bookies as bookies
from . import planted_in_clients as clients
from . import planted_in_journals as journals

PLANTS = (
    Plant((bookies.answers_before_the_sync,), 20),
    Plant((bookies.serves_without_vouching,), 400),
    Plant((bookies.takes_an_older_copy_for_the_newest,), 400),
    Plant((bookies.begins_the_same_life_again,), 400),
    Plant((bookies.goes_on_after_its_log_has_failed,), 400),
    Plant((bookies.says_nothing_of_a_failed_last_sync,), 400),
    Plant((bookies.leaves_a_directory_locked,), 400),
    Plant((bookies.gives_no_answers_at_a_stop,), 400),
    Plant((bookies.stays_registered,), 20),
    Plant((bookies.never_registers_again,), 400),
    Plant((bookies.forgets_to_say_that_it_is_writable_again,), 400),
    Plant((bookies.takes_every_registration_for_its_own,), 400),
    Plant((bookies.stores_for_another_incarnation,), 400),
    Plant((bookies.reads_for_another_incarnation,), 400),
    Plant((bookies.answers_frames_after_the_stop,), 400),
    Plant((bookies.fences_before_the_sync,), 400),
    Plant((bookies.forgets_states_at_a_checkpoint,), 400),
    Plant((bookies.denies_what_it_may_have_lost,), 400),
    Plant((bookies.vouches_for_the_lac_it_may_have_lost,), 400),
    Plant((bookies.takes_writers_entries_behind_a_fence,), 400),
    Plant((bookies.leaves_a_checkpoint_behind,), 800, known=(762,)),
    Plant((bookies.collects_what_is_still_here,), 400),
    Plant((bookies.leaves_limbo_unrepaired,), 400),
    Plant((bookies.peers_leave_out_a_page,), 400),
    Plant((bookies.leaves_its_peers_connected,), 400),
    Plant((clients.never_looks_up_a_bookie_again,), 400),
    Plant((clients.hands_over_only_once,), 400),
    Plant((clients.flushes_what_was_taken_only,), 400),
    Plant((clients.hands_over_in_any_order,), 400),
    Plant((clients.goes_on_after_an_interrupt,), 400),
    Plant((clients.leaves_tasks_on_a_closed_loop,), 400),
    Plant((clients.leaves_reads_behind,), 400),
    Plant((bookies.is_never_due,), 400),
    Plant((journals.acknowledges_at_one_acceptor,), 400),
    Plant((journals.answers_a_batch_before_it_is_on_disk,), 400),
    Plant((journals.ends_no_ledger_of_an_earlier_writer,), 400),
    Plant((journals.reads_what_no_quorum_has,), 400),
    Plant((journals.lets_a_lost_writer_go_on,), 400),
    Plant((journals.keeps_its_ledgers_open,), 400),
    Plant((shells.takes_silence_for_absence,), 400),
    Plant((shells.believes_in_its_close_before_it_stands,), 400),
    Plant((shells.takes_a_lost_answer_for_success,), 400),
)
