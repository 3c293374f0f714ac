"""Reading a ledger: ranges, pages, scans, the last-add-confirmed, tailing."""
