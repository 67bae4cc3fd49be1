"""TLS and SASL, set up with the settings of Kafka's clients."""
