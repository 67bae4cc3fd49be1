"""A schema registry over HTTP: Headwater's, Confluent's or any other with the same API."""
