"""The networks that a release is judged by. Plain torch; every one takes and gives tensors.

All of them are built with fresh random weights from torch's default generator: seed it, or fork
it, around the call (``networks.classifier_training`` does).
"""
