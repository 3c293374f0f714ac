"""Makes metadata that was lost again, from what the bookies hold and what ledgers say of themselves."""
