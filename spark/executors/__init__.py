"""Code that tasks run on executors: opening ledgers and reading their pages."""
