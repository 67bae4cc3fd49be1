"""How Java is started for tests: what lives for seconds or minutes gains nothing from the second compiler, which takes
more than half of its processor time, and on few cores nothing from a collector of several threads."""

from collections.abc import Mapping, Sequence

OPTIONS: Sequence[str] = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")

# What Spark's start scripts read: for the driver, for the program that works out its command line, and for the master
# and the workers of a cluster.
SPARK_ENVIRONMENT: Mapping[str, str] = dict.fromkeys(
    ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "SPARK_DAEMON_JAVA_OPTS"), " ".join(OPTIONS)
)
