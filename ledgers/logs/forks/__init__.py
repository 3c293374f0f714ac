"""Forks of a log: how they are made, and which ledgers they share."""
