"""Looks up in the metadata what authorizes clients: verifiers, owners, keys of bookies."""
