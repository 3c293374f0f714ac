"""The client's protocol as pure machines: events in, frozen effects out; no I/O, clock or randomness."""
