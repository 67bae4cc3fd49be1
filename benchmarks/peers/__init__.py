"""Brokers of other protocols, from Debian's packages. Each is one process on loopback that keeps its streams in files
and, as Kafka does, acknowledges what the page cache has.
"""
