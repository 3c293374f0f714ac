"""Writers that fight over a journal, acceptors that crash, readers that look: the roles of QJM on one clock."""
