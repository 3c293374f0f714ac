"""The data protocol: entries, reads and fences between clients and bookies, framed over TCP or TLS. See README.md."""
