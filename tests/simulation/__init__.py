"""Whole clusters in one thread, every message, disk operation and crash decided by one seed.

plan              what happens in a run, as a value      draw, sketch, drawn_faults, themes   a seed becomes a plan
cluster           a plan becomes a run                   shrink                     a failing plan becomes small
world, chance     time and keyed chance                  network, metadata, faults  what goes wrong, and how
servers, disk     bookies: the product's own core        seams                      where other bookies are put in
writer, recoverer, readers, page_run, deleter            shells over the product's own machines
process, lanes, node                                     what these share
checks, ack_watch the promises, watched from outside     probes                     rare paths that must be taken
campaign          many seeds, or one with its trace      planted*, rates            bugs that must be found
"""
