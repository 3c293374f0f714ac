"""Looks up in the metadata the data that authorizes clients: verifiers, owners, keys of bookies."""
