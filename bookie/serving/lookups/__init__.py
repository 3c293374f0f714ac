"""Looks up the data that authorizes clients in the metadata: verifiers, owners, keys of bookies."""
