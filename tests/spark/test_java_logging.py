from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest

from headwater.spark.java_logging import logging_option


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_HOME", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)


def test_java_gets_the_logging_configuration_of_the_package() -> None:
    name, _, location = (logging_option() or "").partition("=")

    assert name == "-Dlog4j2.configurationFile"
    assert Path(url2pathname(urlsplit(location).path)).is_file()


def test_a_logging_configuration_of_the_user_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    conf.mkdir()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert logging_option() is not None

    (conf / "log4j2.xml").touch()
    assert logging_option() is None

    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert logging_option() is not None
