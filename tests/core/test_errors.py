"""What errors say."""

import pytest

from understudy.core.errors import MissingExtra, count_words, packages_for


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 faults"), (1, "1 fault"), (2, "2 faults"), (3000, "3,000 faults")]
)
def test_one_is_counted_in_the_singular(count: int, said: str) -> None:
    """`verify` was said to find 1 faults."""
    assert count_words(count, "fault") == said
    assert count_words(1, "file is", "files are") == "1 file is"


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (ModuleNotFoundError("No module named 'torch'"), "not installed: pip install .*torch"),
        (ImportError("libtorch.so: failed to map"), "cannot be loaded: libtorch.so: failed to map"),
    ],
)
def test_a_package_that_is_there_and_cannot_be_loaded_is_not_called_missing(
    fault: ImportError, words: str
) -> None:
    with pytest.raises(MissingExtra, match=words), packages_for("a model", "torch"):
        raise fault
