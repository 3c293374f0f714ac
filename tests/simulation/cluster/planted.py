"""Bugs planted in what only whole processes have, one at a time, to see that the runs find them."""

from __future__ import annotations

from tests.simulation.engine.planted import Plant
from tests.simulation.shells import planted as shells

from . import planted_in_bookies as bookies
from . import planted_in_clients as clients
from . import planted_in_healing as healing
from . import planted_in_journals as journals

PLANTS = (
    Plant((bookies.answers_before_the_sync,), 20, known=0),
    Plant((bookies.serves_without_vouching,), 400, known=95),
    Plant((bookies.takes_an_older_copy_for_the_newest,), 400, known=95),
    Plant((bookies.goes_on_after_its_log_has_failed,), 400, known=19),
    Plant((bookies.says_nothing_of_a_failed_last_sync,), 400, known=21),
    Plant((bookies.leaves_a_directory_locked,), 400, known=0),
    Plant((bookies.gives_no_answers_at_a_stop,), 400, known=0),
    Plant((bookies.stays_registered,), 20, known=0),
    Plant((bookies.never_registers_again,), 400, known=2),
    Plant((bookies.forgets_to_say_that_it_is_writable_again,), 400, known=13),
    Plant((bookies.takes_every_registration_for_its_own,), 400, known=57),
    Plant((bookies.fences_before_the_sync,), 400, known=72),
    Plant((bookies.forgets_states_at_a_checkpoint,), 400, known=0),
    Plant((bookies.takes_writers_entries_behind_a_fence,), 400, known=1),
    Plant((bookies.collects_what_is_still_here,), 400, known=0),
    Plant((bookies.peers_leave_out_a_page,), 400, known=10),
    Plant((bookies.leaves_its_peers_connected,), 400, known=10),
    Plant((clients.never_looks_up_a_bookie_again,), 400, known=124),
    Plant((clients.hands_over_only_once,), 400, known=7),
    Plant((clients.hands_over_in_any_order,), 400, known=7),
    Plant((bookies.is_never_due,), 400, known=17),
    Plant((healing.takes_a_place_with_nothing_in_it,), 50, known=1),
    Plant((healing.takes_what_another_lacks_for_all_that_it_holds,), 400, known=11),
    Plant((healing.copies_to_nobody,), 20, known=0),
    Plant((healing.nobody_audits,), 400, known=1),
    Plant((healing.tells_nothing_of_what_lacks,), 100, known=14),
    Plant((healing.a_recovery_knows_everything,), 400, known=24),
    Plant((journals.answers_a_batch_before_it_is_on_disk,), 400, known=43),
    Plant((journals.ends_no_ledger_of_an_earlier_writer,), 400, known=1),
    Plant((journals.lets_a_lost_writer_go_on,), 400, known=31),
    Plant((journals.keeps_its_ledgers_open,), 400, known=1),
    Plant((shells.believes_in_its_close_before_it_stands,), 400, known=43),
    Plant((shells.tells_readers_what_is_not_confirmed,), 50, known=0),
    Plant((shells.leaves_connections_open,), 100, known=0),
    Plant((shells.takes_a_lost_answer_for_success,), 400, known=58),
    Plant((shells.answers_an_append_when_it_is_sent,), 10, known=0),
    Plant((shells.a_background_task_goes_on,), 40, known=1),
)
