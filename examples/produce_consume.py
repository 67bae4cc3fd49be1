"""The smallest use: send three records and read them back. Start a broker first: `headwater serve`."""

import sys

from confluent_kafka import Consumer, Producer, TopicPartition

NAMES = ("Ann", "Ben", "Cleo")

bootstrap_servers = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"
# The broker creates the topic with its first record. Partition 0 is enough here.
producer = Producer({"bootstrap.servers": bootstrap_servers})
for name in NAMES:
    producer.produce("greetings", key=name, value=f"Hello, {name}!", partition=0)
producer.flush()

consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "readers", "enable.auto.commit": False})
consumer.assign([TopicPartition("greetings", 0, 0)])
for message in consumer.consume(len(NAMES), timeout=10):
    print(message.offset(), (message.value() or b"").decode())
consumer.close()
