"""Reading a ledger: ranges, pages, the last-add-confirmed, tailing."""
