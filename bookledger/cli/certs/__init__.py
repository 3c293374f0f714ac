"""`bookledger certs`: an authority of one's own."""
