"""Settings and facts are called what a reader understands."""

import dataclasses

import pytest

from understudy.report.readable_names import NAMES, readable
from understudy.run.methods import methods


@pytest.mark.parametrize("name", sorted(methods()))
def test_every_setting_of_a_method_has_a_readable_name(name):
    settings = {field.name for field in dataclasses.fields(methods()[name].params)}
    assert settings <= set(NAMES)


def test_what_is_not_known_is_shown_by_its_words():
    assert readable("something_of_a_plugin") == "something of a plugin"
    assert readable("second_moment") == "variances aligned too"
