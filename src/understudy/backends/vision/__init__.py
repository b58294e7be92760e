"""Captioners, segmenters, detectors and pose estimators of the hub."""
