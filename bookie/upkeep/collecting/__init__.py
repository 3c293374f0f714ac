"""Forgetting deleted ledgers, and emptying thin segments."""
