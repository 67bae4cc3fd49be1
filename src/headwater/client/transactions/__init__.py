"""Transactions: staging writers and their publication, read_committed filtering, administration."""
