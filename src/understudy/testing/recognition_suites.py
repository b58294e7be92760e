"""What every segmenter, detector and pose estimator must do."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from understudy.backends.registry import load_model
from understudy.core.errors import BackendError
from understudy.core.ports import Detector, PoseEstimator, ScoringSegmenter, Segmenter
from understudy.core.types import Found
from understudy.testing.sample_inputs import check_refusals, check_stated, load_once, striped_images


def check_detection(detection: Found, size: tuple[int, int], classes: int) -> None:
    """Boxes inside the image, best first, and masks inside their boxes."""
    count = len(detection.boxes)
    assert detection.boxes.shape == (count, 4)
    assert detection.boxes.dtype == np.float32
    assert detection.labels.shape == detection.scores.shape == (count,)
    assert detection.labels.dtype == np.int64
    assert detection.scores.dtype == np.float32
    assert (detection.boxes[:, :2] <= detection.boxes[:, 2:]).all()
    assert (detection.boxes >= 0).all()
    assert (detection.boxes[:, [1, 3]] <= size[0]).all()
    assert (detection.boxes[:, [0, 2]] <= size[1]).all()
    assert ((detection.labels >= 0) & (detection.labels < classes)).all()
    assert ((detection.scores >= 0) & (detection.scores <= 1)).all()
    assert (np.diff(detection.scores) <= 0).all()
    if detection.masks is not None:
        assert detection.masks.shape == (count, *size)
        assert detection.masks.dtype == np.bool_
        for mask, (left, top, right, bottom) in zip(
            detection.masks, detection.boxes.astype(int), strict=True
        ):
            assert mask.any()
            assert mask.sum() == mask[top:bottom, left:right].sum()


class SegmenterSuite:
    """What every segmenter must do.

    A subclass states ``name``, or overrides the fixture ``segmenter``.
    """

    name: ClassVar[str]

    @pytest.fixture
    def segmenter(self) -> Segmenter:
        return load_once(Segmenter, self.name)

    def test_a_segmenter_gives_a_class_for_every_pixel(self, segmenter: Segmenter) -> None:
        assert isinstance(segmenter, Segmenter)
        check_stated(segmenter)
        for images in (striped_images(), striped_images((30, 50, 1), 3)):
            maps = segmenter.segment(images)
            assert maps.shape == images.shape[:3]
            assert maps.dtype == np.int64
            assert maps.min() >= 0
            assert maps.max() < len(segmenter.classes)
        assert segmenter.segment(striped_images()[:0]).shape == (0, 40, 56)

    def test_a_map_depends_on_its_own_image_only(self, segmenter: Segmenter) -> None:
        images = striped_images()
        together = segmenter.segment(images)
        alone = np.concatenate([segmenter.segment(images[i : i + 1]) for i in range(len(images))])
        assert (alone == together).mean() > 0.999  # a pixel between two classes may fall either way

    def test_a_segmenters_name_loads_it_again(self, segmenter: Segmenter) -> None:
        again = load_model(Segmenter, segmenter.name)
        assert (again.name, again.classes) == (segmenter.name, segmenter.classes)
        np.testing.assert_array_equal(
            again.segment(striped_images()), segmenter.segment(striped_images())
        )

    def test_a_segmenter_refuses_other_images(self, segmenter: Segmenter) -> None:
        check_refusals(segmenter.segment)


class ScoringSegmenterSuite(SegmenterSuite):
    """What every segmenter with scores must do, besides what every segmenter must.

    A subclass states ``name``, or overrides the fixture ``segmenter``.
    """

    def test_a_score_is_of_a_class_and_a_pixel(self, segmenter: Segmenter) -> None:
        assert isinstance(segmenter, ScoringSegmenter)
        classes = segmenter.classes[-1:] + segmenter.classes[:1]
        for images in (striped_images(), striped_images((30, 50, 1), 3)):
            scores = segmenter.score(images, classes)
            assert scores.shape == (len(images), 2, *images.shape[1:3])
            assert scores.dtype == np.float32
            assert ((scores >= 0) & (scores <= 1)).all()
        assert segmenter.score(striped_images()[:0], classes).shape == (0, 2, 40, 56)
        assert segmenter.score(striped_images(), ()).shape == (6, 0, 40, 56)

    def test_the_largest_score_is_the_class_of_a_pixel(self, segmenter: Segmenter) -> None:
        assert isinstance(segmenter, ScoringSegmenter)
        images = striped_images()
        scores = segmenter.score(images, segmenter.classes)
        class_scores = np.take_along_axis(scores, segmenter.segment(images)[:, None], axis=1)
        assert (class_scores[:, 0] >= scores.max(axis=1) - 1e-4).all()

    def test_scores_come_in_the_order_of_the_classes(self, segmenter: Segmenter) -> None:
        assert isinstance(segmenter, ScoringSegmenter)
        images, classes = striped_images(), segmenter.classes
        np.testing.assert_array_equal(
            segmenter.score(images, classes[::-1])[:, ::-1], segmenter.score(images, classes)
        )

    def test_a_score_depends_on_its_own_image_only(self, segmenter: Segmenter) -> None:
        assert isinstance(segmenter, ScoringSegmenter)
        images = striped_images()
        together = segmenter.score(images, segmenter.classes)
        for row in range(len(images)):
            alone = segmenter.score(images[row : row + 1], segmenter.classes)
            np.testing.assert_allclose(alone[0], together[row], atol=1e-4)

    def test_an_unknown_class_has_no_score(self, segmenter: Segmenter) -> None:
        assert isinstance(segmenter, ScoringSegmenter)
        with pytest.raises(BackendError, match="no class 'unicorn'"):
            segmenter.score(striped_images(), ("unicorn",))


class DetectorSuite:
    """What every detector must do.

    A subclass states ``name``, or overrides the fixture ``detector``.
    """

    name: ClassVar[str]

    @pytest.fixture
    def detector(self) -> Detector:
        return load_once(Detector, self.name)

    def test_a_detector_finds_objects_inside_each_image(self, detector: Detector) -> None:
        assert isinstance(detector, Detector)
        check_stated(detector)
        for images in (striped_images(), striped_images((30, 50, 1), 3)):
            detections = detector.detect(images)
            assert len(detections) == len(images)
            for detection in detections:
                check_detection(detection, images.shape[1:3], len(detector.classes))
        assert sum(len(detection.boxes) for detection in detector.detect(striped_images())) > 0
        assert detector.detect(striped_images()[:0]) == []

    def test_what_is_found_depends_on_its_own_image_only(self, detector: Detector) -> None:
        images = striped_images()
        for row, detection in enumerate(detector.detect(images)):
            (alone,) = detector.detect(images[row : row + 1])
            np.testing.assert_allclose(alone.scores, detection.scores, atol=1e-4)
            # Two objects that are equally sure may change places.
            assert sorted(alone.labels) == sorted(detection.labels)

    def test_a_detectors_name_loads_it_again(self, detector: Detector) -> None:
        again = load_model(Detector, detector.name)
        assert (again.name, again.classes) == (detector.name, detector.classes)
        for detection, repeated in zip(
            detector.detect(striped_images()), again.detect(striped_images()), strict=True
        ):
            np.testing.assert_array_equal(repeated.boxes, detection.boxes)

    def test_a_detector_refuses_other_images(self, detector: Detector) -> None:
        check_refusals(detector.detect)


class PoseEstimatorSuite:
    """What every pose estimator must do.

    A subclass states ``name``, or overrides the fixture ``pose_estimator``.
    """

    name: ClassVar[str]

    @pytest.fixture
    def pose_estimator(self) -> PoseEstimator:
        return load_once(PoseEstimator, self.name)

    def test_a_pose_has_every_keypoint(self, pose_estimator: PoseEstimator) -> None:
        assert isinstance(pose_estimator, PoseEstimator)
        check_stated(pose_estimator)
        for images in (striped_images(), striped_images((30, 50, 1), 3)):
            poses = pose_estimator.pose(images)
            assert len(poses) == len(images)
            for pose in poses:
                assert pose.shape[1:] == (len(pose_estimator.keypoints), 3)
                assert pose.dtype == np.float32
                assert np.isfinite(pose).all()
                assert ((pose[..., 2] >= 0) & (pose[..., 2] <= 1)).all()
        assert sum(len(pose) for pose in pose_estimator.pose(striped_images())) > 0
        assert pose_estimator.pose(striped_images()[:0]) == []

    def test_a_pose_depends_on_its_own_image_only(self, pose_estimator: PoseEstimator) -> None:
        images = striped_images()
        for row, pose in enumerate(pose_estimator.pose(images)):
            (alone,) = pose_estimator.pose(images[row : row + 1])
            assert alone.shape == pose.shape
            np.testing.assert_allclose(alone[..., 2], pose[..., 2], atol=1e-3)
            # Where a heatmap is flat at its top, the last digit of a float moves the refined place.
            assert np.isclose(alone, pose, rtol=1e-2, atol=0.5).mean() > 0.8

    def test_a_pose_estimators_name_loads_it_again(self, pose_estimator: PoseEstimator) -> None:
        again = load_model(PoseEstimator, pose_estimator.name)
        assert (again.name, again.keypoints) == (pose_estimator.name, pose_estimator.keypoints)
        for pose, repeated in zip(
            pose_estimator.pose(striped_images()), again.pose(striped_images()), strict=True
        ):
            np.testing.assert_array_equal(repeated, pose)

    def test_a_pose_estimator_refuses_other_images(self, pose_estimator: PoseEstimator) -> None:
        check_refusals(pose_estimator.pose)
