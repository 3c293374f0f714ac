"""`bookledger ledger`"""
