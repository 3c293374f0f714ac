"""Keys that stand while a process lives: held under a lease, or a name that one process has at a time."""
