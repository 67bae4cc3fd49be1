"""Ports of 127.0.0.1 for servers that are to find theirs free whenever they start."""

import socket


def reserved_port() -> socket.socket:
    """While this is open no other process is given the port by chance; a server that asks for it by number, and lets
    its address be used again, gets it."""
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    return reserved


def port_of(reserved: socket.socket) -> int:
    return reserved.getsockname()[1]
