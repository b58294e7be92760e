"""What errors say."""

import pytest

from understudy.core.errors import count_words


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 faults"), (1, "1 fault"), (2, "2 faults"), (3000, "3,000 faults")]
)
def test_one_is_counted_in_the_singular(count: int, said: str) -> None:
    """`verify` was said to find 1 faults."""
    assert count_words(count, "fault") == said
    assert count_words(1, "file is", "files are") == "1 file is"
