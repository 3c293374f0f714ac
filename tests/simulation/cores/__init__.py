"""The first layer: the pure machines of client and bookie. Every message, disk operation and crash is simulated.

plans             what happens in a run, as a value, and how a seed becomes one
cluster           a plan becomes a run
site              network, disks, metadata and bookies (the product's own core), and what goes wrong with them
clients           shells over the product's own machines
checks, ack_watch the promises, watched from outside     probes    rare paths that must be taken
planted           bugs that must be found
"""
