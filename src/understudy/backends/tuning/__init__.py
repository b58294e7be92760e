"""DreamBooth: a generator learns one subject from a few images, by a rare word.

    tuner = load_model(Tuner, "hf:stable-diffusion-v1-5/stable-diffusion-v1-5?dtype=float32")
    dog = tuner.tune(images, "a photo of xyz dog", class_prompt="a photo of a dog",
                     settings={"steps": 800}, folder=Path("my-dog"))

For the denoising networks of Stable Diffusion 1 and 2, those of unCLIP too: LoRA, or every weight.
What was learned moves into an inpainting model by `merge_into_inpainting`.
"""

from understudy.backends.tuning.dreambooth import TuningProgress, denoising_loss
from understudy.backends.tuning.material import Latents, encode_images
from understudy.backends.tuning.tuner import DreamBooth, load_tuner
from understudy.backends.tuning.tuning_settings import SPINML, TuningSettings
from understudy.backends.tuning.weights import fold_lora, fused, merge_into_inpainting, with_lora

__all__ = [
    "SPINML",
    "DreamBooth",
    "Latents",
    "TuningProgress",
    "TuningSettings",
    "denoising_loss",
    "encode_images",
    "fold_lora",
    "fused",
    "load_tuner",
    "merge_into_inpainting",
    "with_lora",
]
