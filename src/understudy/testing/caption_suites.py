"""What every captioner and every writer of captions must do."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from understudy.backends.registry import load_model
from understudy.core.errors import BackendError
from understudy.core.ports import Captioner, Writer
from understudy.testing.sample_inputs import check_refusals, check_stated, load_once, striped_images

CAPTIONS = 5


class CaptionerSuite:
    """What every captioner must do.

    A subclass states ``name``, or overrides the fixture ``captioner``.
    """

    name: ClassVar[str]

    @pytest.fixture
    def captioner(self) -> Captioner:
        return load_once(Captioner, self.name)

    def test_a_captioner_says_something_of_every_image(self, captioner: Captioner) -> None:
        assert isinstance(captioner, Captioner)
        check_stated(captioner)
        for images in (striped_images(), striped_images((30, 30, 1), 3)):
            captions = captioner.caption(images)
            assert len(captions) == len(images)
            assert all(caption.strip() == caption != "" for caption in captions)
            assert not any("\n" in caption for caption in captions)
        assert captioner.caption(striped_images()[:0]) == []

    def test_a_caption_depends_on_its_own_image_only(self, captioner: Captioner) -> None:
        images = striped_images()
        together = captioner.caption(images)
        assert captioner.caption(images[::-1])[::-1] == together
        assert [captioner.caption(images[i : i + 1])[0] for i in range(len(images))] == together

    def test_a_captioners_name_loads_it_again(self, captioner: Captioner) -> None:
        again = load_model(Captioner, captioner.name)
        assert again.name == captioner.name
        assert again.caption(striped_images()[:2]) == captioner.caption(striped_images()[:2])

    def test_a_captioner_refuses_other_images(self, captioner: Captioner) -> None:
        check_refusals(captioner.caption)


class WriterSuite:
    """What every writer of captions must do.

    A subclass states ``name`` and ``class_name``, or overrides the fixtures ``writer`` and
    ``label``.

    Attributes:
        name: The name that loads the writer.
        class_name: A class that it can be asked for.
    """

    name: ClassVar[str]
    class_name: ClassVar[str]

    @pytest.fixture
    def writer(self) -> Writer:
        return load_once(Writer, self.name)

    @pytest.fixture
    def label(self) -> str:
        """A class that it can be asked for."""
        return self.class_name

    def test_it_says_its_name_and_licence(self, writer: Writer) -> None:
        assert writer.licence
        again = load_model(Writer, writer.name)
        assert again.name == writer.name
        assert again.write(2, seed=3) == writer.write(2, seed=3)

    def test_it_writes_as_many_as_asked_each_on_one_line(self, writer: Writer) -> None:
        captions = writer.write(CAPTIONS, seed=1)
        assert len(captions) == CAPTIONS
        assert all(isinstance(caption, str) for caption in captions)
        assert all(caption == " ".join(caption.split()) != "" for caption in captions)
        assert writer.write(0) == []

    def test_it_writes_of_a_class(self, writer: Writer, label: str) -> None:
        assert len(writer.write(3, label=label, seed=2)) == 3

    def test_rows_differ_and_so_do_seeds(self, writer: Writer) -> None:
        one, other = writer.write(8, seed=1), writer.write(8, seed=2)
        assert len(set(one)) > 2
        assert one != other
        assert writer.write(8, seed=1) == one

    def test_a_row_does_not_depend_on_the_others(self, writer: Writer) -> None:
        captions = writer.write(7, seed=4)
        assert writer.write(3, seed=4) == captions[:3]
        varied = writer.vary(captions, degree=0.5, seed=5)
        assert writer.vary(captions[:3], degree=0.5, seed=5) == varied[:3]
        changed = [*captions[:2], *captions[:5]]
        assert writer.vary(changed, degree=0.5, seed=5)[:2] == varied[:2]

    def test_it_varies_each_text_once(self, writer: Writer) -> None:
        captions = writer.write(CAPTIONS, seed=6)
        before = list(captions)
        varied = writer.vary(captions, degree=1.0, seed=7)
        assert len(varied) == CAPTIONS
        assert all(caption.strip() for caption in varied)
        assert captions == before
        assert sum(new != old for new, old in zip(varied, captions, strict=True)) >= 3
        assert writer.vary([]) == []

    def test_no_degree_changes_nothing(self, writer: Writer) -> None:
        texts = [*writer.write(3, seed=8), "a text from elsewhere", ""]
        assert writer.vary(texts, degree=0.0, seed=9) == texts

    def test_a_text_it_can_make_nothing_of_is_not_lost(self, writer: Writer) -> None:
        (text,) = writer.vary(["qwrt zxcv"], degree=0.5)
        assert text
        assert writer.vary([""], degree=0.5) == [""]

    @pytest.mark.parametrize("degree", [-0.5, 1.5])
    def test_degrees_outside_zero_to_one_are_refused(self, writer: Writer, degree: float) -> None:
        with pytest.raises(BackendError, match="degree"):
            writer.vary(["a brown dog sleeping"], degree=degree)

    def test_a_negative_count_is_refused(self, writer: Writer) -> None:
        with pytest.raises(BackendError, match="-2"):
            writer.write(-2)

    def test_the_global_sources_of_chance_are_left_alone(self, writer: Writer) -> None:
        before = np.random.get_state(legacy=False)["state"]["key"].copy()
        writer.vary(writer.write(2, seed=1), degree=0.5, seed=1)
        after = np.random.get_state(legacy=False)["state"]["key"]
        np.testing.assert_array_equal(after, before)
