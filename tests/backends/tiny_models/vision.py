"""Captioners, segmenters, detectors and pose estimators with tiny random weights."""

from __future__ import annotations

CLASSES = ("background", "dog", "person", "bottle", "frame")
