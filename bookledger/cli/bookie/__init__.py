"""`bookledger bookie`"""
