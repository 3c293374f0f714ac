"""The data protocol: entries, reads and fences between clients and bookies, framed on plain sockets. See README.md."""
