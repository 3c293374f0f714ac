"""Keys that exist while a process lives: a key held under a lease, or a name that one process has at a time."""
