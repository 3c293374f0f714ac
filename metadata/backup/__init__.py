"""Backup and restore of a cluster's metadata, and the hold on a restored cluster until an operator accepts it."""
