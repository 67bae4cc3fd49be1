"""For all tests: no property has a time limit, because how fast an example runs says nothing about what it shows."""

from hypothesis import HealthCheck, settings

settings.register_profile("headwater", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("headwater")
