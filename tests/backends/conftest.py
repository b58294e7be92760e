import pytest


@pytest.fixture(autouse=True, scope="module")
def quick(one_thread: None) -> None:
    """Every test of this folder runs tiny networks."""
