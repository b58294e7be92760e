import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.data.names import safe_names, sorted_names


def test_whole_numbers_sort_by_value_and_words_by_letter() -> None:
    assert sorted_names(["10", "9", "2", "2"]) == ("2", "9", "10")
    assert sorted_names(["b", "10", "9", "a"]) == ("10", "9", "a", "b")
    assert sorted_names(["01", "1"]) == ("01", "1")


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("T-shirt/top", "T-shirt_top"),
        ("..", "class"),
        ("", "class"),
        (".hidden", "hidden"),
        ("__private", "private"),
        ("ends. ", "ends"),
        ("CON", "CON_"),
        ("Kätzchen", "Kätzchen"),
        ("a*[b]?", "a__b__"),
        ("test", "test~"),
        ("test tube", "test~ tube"),
        ("contest", "contest"),
        ("crash-val-2", "crash-val~-2"),
    ],
)
def test_folder_names(name: str, folder: str) -> None:
    assert safe_names([name]) == [folder]


def test_names_that_become_alike_are_kept_apart() -> None:
    assert safe_names(["a/b", "a_b", "A_B"]) == ["a_b", "a_b-2", "A_B-3"]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(max_size=120), max_size=12))
def test_any_names_give_distinct_folders_that_any_file_system_takes(names: list[str]) -> None:
    folders = safe_names(names)
    assert len({folder.casefold() for folder in folders}) == len(names)
    for folder in folders:
        assert folder
        assert len(folder.encode()) <= 100
        assert folder[0] not in "._ "
        assert folder[-1] not in ". "
        assert not set(folder) & set('/\\:*?"<>|\0\n[]{}')
