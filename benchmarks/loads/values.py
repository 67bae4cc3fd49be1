"""Values that a codec can shrink about as far as real ones: orders as JSON text, the same in every run."""

from random import Random

_CITIES = ("Lisbon", "Osaka", "Nairobi", "Quito", "Tromso", "Adelaide", "Halifax", "Chennai")
_STATES = ("placed", "paid", "packed", "shipped", "delivered", "returned")


def values(record_bytes: int, count: int) -> list[bytes]:
    """Each is cut to size, also within an order."""
    random = Random(1)
    return [_orders(random, record_bytes)[:record_bytes] for _ in range(count)]


def _orders(random: Random, bytes_min: int) -> bytes:
    text = bytearray()
    while len(text) < bytes_min:
        city, state = random.choice(_CITIES), random.choice(_STATES)
        numbers = (
            f'"order":{random.getrandbits(32)},"customer":{random.getrandbits(20)},"cents":{random.getrandbits(16)}'
        )
        text += f'{{{numbers},"city":"{city}","state":"{state}","token":"{random.getrandbits(64):016x}"}}'.encode()
    return bytes(text)
