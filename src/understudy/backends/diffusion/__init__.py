"""Images by diffusers: generators, unCLIP decoders and autoencoders in the hub's format.

    hf:stabilityai/sdxl-turbo?steps=1&guidance=0&size=512
    hf:sd2-community/stable-diffusion-2-1-unclip?scheduler=DPMSolverMultistepScheduler&steps=12
    hf:stable-diffusion-v1-5/stable-diffusion-v1-5?controlnet=edges:lllyasviel/sd-controlnet-canny

Pipelines are loaded once, from safetensors only, and run in batches: equal prompts of a batch are
embedded once, images are encoded in one go, and row i draws its noise from the seed and i.
"""
