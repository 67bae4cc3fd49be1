"""The `headwater` command: one module per command, and what several of them share."""
