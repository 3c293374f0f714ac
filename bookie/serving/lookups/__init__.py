"""Metadata look-ups of the data that authorizes clients: verifiers, owners, and bookies' keys."""
