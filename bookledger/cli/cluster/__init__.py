"""`bookledger cluster`"""
