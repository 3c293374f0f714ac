"""Notes that bookies keep of their ledgers, and the records that are rebuilt from the notes."""
