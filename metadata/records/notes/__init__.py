"""Notes that bookies keep about their ledgers, and the records that are rebuilt from the notes."""
