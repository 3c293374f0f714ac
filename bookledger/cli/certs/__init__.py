"""`bookledger certs`: a certificate authority for clusters without one."""
