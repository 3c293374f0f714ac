"""`bookledger journal`"""
