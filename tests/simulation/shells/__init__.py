"""The real asyncio shells of client and bookie under virtual time: one seed decides every delay, loss and cut."""
