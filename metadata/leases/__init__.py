"""Keys that exist while a process is alive: a key held under a lease, or a name that one process holds at a time."""
