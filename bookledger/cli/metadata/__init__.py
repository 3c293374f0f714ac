"""`bookledger metadata`"""
