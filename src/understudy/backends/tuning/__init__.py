"""DreamBooth: a generator learns one subject from a few images, by a rare word.

    tuner = load_model(Tuner, "hf:stable-diffusion-v1-5/stable-diffusion-v1-5?dtype=float32")
    dog = tuner.tune(images, "a photo of xyz dog", class_prompt="a photo of a dog",
                     settings={"steps": 800})
    Path("my-dog.safetensors").write_bytes(tuner.changes(dog))  # again: tuner.restore(BYTES)

For the denoising networks of Stable Diffusion 1 and 2, those of unCLIP too: LoRA, or every weight.
What was learned moves into an inpainting model by `weights.merge_into_inpainting`.
"""

from understudy.backends.tuning.tuning_settings import SPINML as SPINML
