"""Replicated, fenced, durable ledgers: what composes the other packages."""
