"""Shells over the machines of writers, recoverers and readers: processes that crash, pause and come back."""
