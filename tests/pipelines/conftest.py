"""A broker and the commands for it; and what becomes of jobs that run one after the other in one process.

Starting Java and a session takes longer than most of these jobs, so they share one.
"""

from collections.abc import Iterator, Sequence

import pytest

from headwater.testing import Broker
from tests.pipelines.faulty_projects import faulty_projects
from tests.pipelines.secured_job import SecuredJob, secured_job
from tests.support.cli.commands import Commands, Outcome
from tests.support.cli.program import run_together


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """Not the one that others share: a new project has names of topics of its own."""
    with Broker() as running:
        yield running


@pytest.fixture(scope="session")
def commands(broker: Broker) -> Commands:
    return Commands(broker.bootstrap_servers)


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredJob]:
    with secured_job(tmp_path_factory.mktemp("secured")) as job:
        yield job


@pytest.fixture(scope="session")
def outcomes(commands: Commands, secured: SecuredJob, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    steps: dict[str, Sequence[str]] = {"secured": secured.arguments}
    steps |= faulty_projects(commands, tmp_path_factory.mktemp("projects"))
    return dict(zip(steps, run_together(commands.bootstrap, *steps.values()), strict=True))
