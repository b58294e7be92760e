"""Lists of names, as options hold them."""

import pytest

from understudy.core.option import list_of_names, names_listed


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("cat, dog", ["cat", "dog"]),
        ('"cat, tabby",dog', ["cat, tabby", "dog"]),
        ("cat\ndog\n", ["cat", "dog"]),
        ("cat\r\ndog\r\n", ["cat", "dog"]),  # $(cat classes.txt), of a file from Windows
        ("", []),
    ],
)
def test_names_stand_between_commas_or_on_lines(text, names):
    assert names_listed(text) == names
    assert names_listed(list_of_names(names)) == names
