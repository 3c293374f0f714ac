"""`bookledger replay` and `bookledger sim`"""
