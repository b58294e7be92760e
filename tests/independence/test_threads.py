"""Workers of one thread embed, decode and draw as a driver of several does, to the last bit."""

import os
import subprocess
import sys

import pytest

NAMES = ("embedded:dct", "embedded:energies", "embedded:photo", "embedded:scattering")
PROGRAM = """
import sys
from hashlib import sha256
import numpy as np
from understudy.backends.registry import load_decoder, load_encoder, load_model
from understudy.core.ports import Generator

rng = np.random.default_rng(0)
for name in sys.argv[1:]:
    for shape in ((24, 24, 1), (64, 64, 3)):
        encoder = load_encoder(name, shape=shape)
        embeddings = encoder.encode(rng.integers(0, 256, (64, *shape), dtype=np.uint8))
        print(name, shape, sha256(embeddings.tobytes()).hexdigest())
        if name != "embedded:scattering":
            decoder = load_decoder(name, shape=shape, encoder=encoder)
            images = decoder.decode(embeddings[:8], seeds=np.arange(8))
            print(name, shape, sha256(images.tobytes()).hexdigest())
images = load_model(Generator, "embedded:studio").generate(["a dog"] * 40)
print("embedded:studio", sha256(images.tobytes()).hexdigest())
"""


def test_any_number_of_threads_gives_the_same_bits():
    """The axes of `embedded:energies` came of a product by BLAS, whose threads add otherwise."""
    pytest.importorskip("diffusers")
    runs = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM, *NAMES],
            env=os.environ | {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for threads in ("1", "2")
    ]
    assert len(runs[0]) == 15
    assert runs[0] == runs[1]
