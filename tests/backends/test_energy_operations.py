"""``embedded:energies`` written down: its operators compute its embeddings, for any size."""

import numpy as np
import pytest
from tests.run.stripes import stripes

pytest.importorskip("torch")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

from understudy.backends.registry import load_encoder  # noqa: E402
from understudy.core.operations import WrittenEncoder  # noqa: E402
from understudy.metrics.networks.onnx_export import operations_as_onnx  # noqa: E402


@pytest.mark.parametrize("shape", [(28, 28, 1), (40, 97, 3), (16, 40, 3), (200, 130, 3)])
def test_the_operators_compute_the_embeddings(shape: tuple[int, int, int]) -> None:
    encoder = load_encoder("embedded:energies", shape=shape)
    assert isinstance(encoder, WrittenEncoder)
    written = encoder.operations()
    images, _ = stripes(9, 0, shape)
    images[0], images[1] = 0, 255
    data = operations_as_onnx(written.operations, shape, len(written.matrix))
    rows = images.transpose(0, 3, 1, 2).astype(np.float32)
    (features,) = onnxruntime.InferenceSession(data).run(None, {"images": rows})
    embeddings = features @ written.matrix + written.offset
    np.testing.assert_allclose(embeddings, encoder.encode(images), atol=1e-4)
