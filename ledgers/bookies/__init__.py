"""Communication with bookies: connections, append streams, lanes, calls, health probes and replacements."""
