"""`bookledger demo`"""
