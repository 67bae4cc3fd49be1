"""Subcommands, and options that change what a command does, which are large enough for a module of their own."""
