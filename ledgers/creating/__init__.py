"""Creating a ledger: its parameters, its id, and the bookies to choose from."""
