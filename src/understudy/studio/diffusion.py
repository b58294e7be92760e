"""The diffusion stages: pictures from texts and embeddings, inpainting, and control."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import diffusers
import numpy as np
import torch
from diffusers.models.embeddings import get_timestep_embedding
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from understudy.core.types import Images
from understudy.studio.autoencoder import from_network, to_network
from understudy.studio.clip_training import any_caption, caption_tokens, tokenise
from understudy.studio.corpus import Corpus

_SHOWN, _SHOWN_STEPS = 8, 12  # images that show how far a network is, and steps of drawing them
NOISING: dict[str, Any] = {
    "num_train_timesteps": 1000,
    "beta_schedule": "squaredcos_cap_v2",
    "prediction_type": "v_prediction",
    "timestep_spacing": "trailing",
}
"""The noising of images: ends in pure noise, so that few steps and plain colours work."""


def new_unet(
    *, side: int, latents: int, widths: tuple[int, ...], layers: int, text: int, embedding: int
) -> Any:
    """An untrained network that hears a text (cross-attention) and an embedding (unCLIP)."""
    return diffusers.UNet2DConditionModel(
        sample_size=side,
        in_channels=latents,
        out_channels=latents,
        block_out_channels=widths,
        layers_per_block=layers,
        down_block_types=("CrossAttnDownBlock2D",) * len(widths),
        up_block_types=("CrossAttnUpBlock2D",) * len(widths),
        cross_attention_dim=text,
        attention_head_dim=4,  # the number of heads: diffusers keeps a wrong name
        norm_num_groups=16,
        class_embed_type="projection",
        projection_class_embeddings_input_dim=2 * embedding,
    )


@dataclass(frozen=True)
class Studied:
    """What the stages before found of the corpus, and the networks that did.

    Attributes:
        latents: (n, channels, height, width) float16 of the autoencoder.
        embeddings: (n, d) float16 of CLIP, each of length sqrt(d).
    """

    corpus: Corpus
    latents: NDArray[np.float16]
    embeddings: NDArray[np.float16]
    vae: Any
    clip: Any
    tokenizer: Any
    device: torch.device

    def clean(self, rows: torch.Tensor) -> torch.Tensor:
        """Latents of rows, float32 on the device."""
        return torch.from_numpy(self.latents[rows.numpy()]).to(self.device).float()

    @torch.no_grad()
    def text_states(self, tokens: torch.Tensor) -> torch.Tensor:
        """What the text encoder makes of tokens: (n, length, width)."""
        text: torch.Tensor = self.clip.text_model(
            input_ids=tokens.long().to(self.device)
        ).last_hidden_state
        return text


class _Noised:
    """What the stages share: noised latents, the conditions, and the velocity to be learnt."""

    def __init__(self, studied: Studied) -> None:
        self.studied = studied
        self.rows = len(studied.corpus)
        self.noising = diffusers.DDPMScheduler(**NOISING)
        self.tokens = caption_tokens(studied.tokenizer, studied.corpus.captions).to(studied.device)
        self.silence = tokenise(studied.tokenizer, [""])[0].short().to(studied.device)

    def noised(
        self,
        rows: torch.Tensor,
        random: torch.Generator,
        *,
        power: float = 1.0,
        between: tuple[float, float] = (0.0, 1.0),
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Noised latents, their steps, and the velocities; more noise with a power below 1."""
        device = self.studied.device
        clean = self.studied.clean(rows)
        noise = torch.randn(clean.shape, generator=random, device=device)
        part = torch.rand(len(rows), generator=random, device=device) ** power
        steps = (1000 * (between[0] + (between[1] - between[0]) * part)).long()
        return (
            self.noising.add_noise(clean, noise, steps),
            steps,
            self.noising.get_velocity(clean, noise, steps),
        )

    def text(
        self, rows: torch.Tensor, dropped: torch.Tensor, random: torch.Generator
    ) -> torch.Tensor:
        """One caption of each row as the text encoder reads it, silence where dropped."""
        tokens = any_caption(self.tokens, rows, random)
        return self.studied.text_states(torch.where(dropped[:, None], self.silence, tokens))

    def shown(self) -> tuple[torch.Tensor, Images, torch.Tensor, torch.Tensor]:
        """Eight held-out records with their images, and their captions and silence as texts."""
        rows = torch.from_numpy(self.studied.corpus.last(8))
        silence = self.studied.text_states(self.silence.expand(8, -1))
        states = self.studied.text_states(self.tokens[rows, 0])
        return rows, np.asarray(self.studied.corpus.images[rows.numpy()]), states, silence


class UNetStage(_Noised):
    """The velocity of latents (v-prediction), told a caption, an embedding, both, or nothing.

    It learns mostly where the target is: few of the places, and what a picture is looked at for.
    Half of the rows are told the caption, a third the embedding (with the caption or without), and
    the embeddings are noised as unCLIP noises them, mostly a little.
    """

    name = "unet"

    def __init__(self, studied: Studied, network: Any) -> None:
        super().__init__(studied)
        self.network = network
        embeddings = torch.from_numpy(studied.embeddings[: self.rows].astype(np.float32))
        self.mean, self.spread = embeddings.mean(0), embeddings.std(0)
        self.blur = diffusers.DDPMScheduler(beta_schedule="squaredcos_cap_v2")

    def loss(self, rows: torch.Tensor, random: torch.Generator) -> dict[str, torch.Tensor]:
        """Mean squared error of the velocity."""
        device = self.studied.device
        noised, steps, velocity = self.noised(rows, random)
        kind = torch.rand(len(rows), generator=random, device=device)
        text = self.text(rows, (kind >= 0.65) & (kind < 1.0), random)
        embedding = self.embedding(rows, random) * (kind >= 0.55)[:, None] * (kind < 0.92)[:, None]
        prediction = self.network(noised, steps, text, class_labels=embedding).sample
        target = torch.from_numpy(self.studied.corpus.targets(rows.numpy()))[:, None].to(device)
        return {"velocity": mostly_where(target.float(), prediction, velocity, times=3)}

    @torch.no_grad()
    def guess(self, rows: torch.Tensor, random: torch.Generator) -> torch.Tensor:
        """Latents of rows as one look of the network has them, at 5 to 60 % of the noising."""
        device = self.studied.device
        noised, steps, _ = self.noised(rows, random, between=(0.05, 0.6))
        draw = torch.rand((2, len(rows)), generator=random, device=device)
        text = self.text(rows, draw[0] < 0.3, random)
        conditioning = self.embedding(rows, random) * (draw[1] < 0.6)[:, None]
        velocity = self.network(noised, steps, text, class_labels=conditioning).sample
        signal = self.noising.alphas_cumprod.to(device)[steps][:, None, None, None]
        return torch.as_tensor(signal.sqrt() * noised - (1 - signal).sqrt() * velocity)

    def embedding(self, rows: torch.Tensor, random: torch.Generator) -> torch.Tensor:
        """Noised embeddings beside the step of their noise, as unCLIP gives them."""
        device = self.studied.device
        plain = torch.from_numpy(self.studied.embeddings[rows.numpy()].astype(np.float32))
        steps = (1000 * torch.rand(len(rows), generator=random, device=device) ** 4).long()
        standard = ((plain - self.mean) / self.spread).to(device)
        noise = torch.randn(standard.shape, generator=random, device=device)
        noised = self.blur.add_noise(standard, noise, steps)
        plain = noised * self.spread.to(device) + self.mean.to(device)
        step_embedding = get_timestep_embedding(
            steps, plain.shape[1], flip_sin_to_cos=True, downscale_freq_shift=0
        )
        return torch.cat([plain, step_embedding], dim=1)

    @torch.no_grad()
    def sheet(self, vae: Any = None) -> Images:
        """Held-out images; drawn from their captions; drawn from their embeddings."""
        rows, images, states, silence = self.shown()
        conditioning = self.embedding_of(rows)
        nothing = torch.zeros_like(conditioning)
        columns = [images]
        blank = partial(self._velocity, silence, nothing)
        for text, label in ((states, nothing), (silence, conditioning)):
            velocity = guided(partial(self._velocity, text, label), blank, 3.0)
            columns.append(draw_latents(self.studied, velocity, vae=vae))
        return np.concatenate(columns)

    def _velocity(
        self, text: torch.Tensor, label: torch.Tensor, x: torch.Tensor, t: torch.Tensor
    ) -> torch.Tensor:
        return self.network(x, t, text, class_labels=label).sample  # type: ignore[no-any-return]

    def embedding_of(self, rows: torch.Tensor) -> torch.Tensor:
        """The embeddings of rows, not noised, as the network takes them."""
        plain = torch.from_numpy(self.studied.embeddings[rows.numpy()].astype(np.float32))
        step_embedding = get_timestep_embedding(
            torch.zeros(len(rows)), plain.shape[1], flip_sin_to_cos=True, downscale_freq_shift=0
        )
        return torch.cat([plain, step_embedding], dim=1).to(self.studied.device)


class InpaintingStage(_Noised):
    """The velocity of latents where the surroundings of a hole are given.

    Where the hole is all but the target, the caption mostly says what is in the hole, a room
    without the target: so the network learns to draw an empty room about a dog that is given.
    """

    name = "inpainting"

    def __init__(self, studied: Studied, base: Any) -> None:
        super().__init__(studied)
        self.network = widened(base, base.config.in_channels + 1)
        texts = studied.corpus.surroundings
        tokens = caption_tokens(studied.tokenizer, texts) if texts else self.tokens
        self.surroundings = tokens.to(studied.device)

    def loss(self, rows: torch.Tensor, random: torch.Generator) -> dict[str, torch.Tensor]:
        """Mean squared error of the velocity."""
        noised, steps, velocity = self.noised(rows, random)
        holes, around = self.holes(rows, random)
        condition = self.given(rows, holes)
        text = self.studied.text_states(self.hole_tokens(rows, around, random))
        prediction = self.network(torch.cat([noised, condition], dim=1), steps, text).sample
        return {"velocity": functional.mse_loss(prediction.float(), velocity)}

    def hole_tokens(
        self, rows: torch.Tensor, around: torch.Tensor, random: torch.Generator
    ) -> torch.Tensor:
        """A text of what is in each hole: (n, length); silence for some.

        ``around`` (n,) says whether the hole is all but the target.
        """
        draw = torch.rand((2, len(rows)), generator=random, device=self.studied.device)
        captions = any_caption(self.tokens, rows, random)
        rooms = any_caption(self.surroundings, rows, random)
        tokens = torch.where((around & (draw[1] < 0.75))[:, None], rooms, captions)
        return torch.where((draw[0] < 0.15)[:, None], self.silence, tokens)

    def holes(
        self, rows: torch.Tensor, random: torch.Generator
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """`drawn_holes` of rows, about targets with what belongs to them, on the device."""
        device = self.studied.device
        draw = torch.rand((len(rows), 6), generator=random, device=device).cpu().numpy()
        targets = self.studied.corpus.targets(rows.numpy(), belongings=True)
        holes, around = drawn_holes(targets, draw)
        return torch.from_numpy(holes).to(device), torch.from_numpy(around).to(device)

    @torch.no_grad()
    def given(self, rows: torch.Tensor, holes: torch.Tensor) -> torch.Tensor:
        """The mask and the latents of the image without the hole, as the pipelines give them."""
        studied = self.studied
        pixels = to_network(studied.corpus.images[rows.numpy()], studied.device)
        around = studied.vae.encode(pixels * (holes < 0.5)).latents.float()
        small = functional.interpolate(holes, size=around.shape[-2:])
        return torch.cat([small, around], dim=1)

    @torch.no_grad()
    def sheet(self) -> Images:
        """Held-out images, their holes in grey, and what was drawn in them."""
        rows, images, states, silence = self.shown()
        holes, _ = self.holes(rows, torch.Generator(self.studied.device).manual_seed(0))
        condition = self.given(rows, holes)

        def velocity(text: torch.Tensor, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
            return self.network(torch.cat([x, condition], dim=1), t, text).sample  # type: ignore[no-any-return]

        hole = holes[:, 0, :, :, None].cpu().numpy() > 0.5
        guided_velocity = guided(partial(velocity, states), partial(velocity, silence), 2.0)
        inpainted = draw_latents(self.studied, guided_velocity)
        return np.concatenate(
            [images, np.where(hole, 128, images), np.where(hole, inpainted, images)]
        )


class ControlStage(_Noised):
    """A ControlNet beside the frozen network, for hints of one kind.

    It learns from rows that have a hint, mostly under much noise, where shapes are settled, and
    mostly where the hint is.
    """

    def __init__(self, studied: Studied, base: Any, kind: str, hints: NDArray[np.uint8]) -> None:
        super().__init__(studied)
        self.name = f"controlnet-{kind}"
        self.base = base.requires_grad_(False).eval()
        self.hints = hints
        hinted = [at for at in range(self.rows) if hints[at].any()]
        self._hinted = torch.tensor(hinted, dtype=torch.int64)
        self.rows = len(hinted)
        self.network = diffusers.ControlNetModel.from_unet(
            base, conditioning_embedding_out_channels=(16, 24, 48, 96)
        )
        # Zero here and zero at the outputs would teach neither for hundreds of steps; the outputs'
        # zeros alone leave the base as it was.
        nn.init.kaiming_normal_(self.network.controlnet_cond_embedding.conv_out.weight)

    def loss(self, rows: torch.Tensor, random: torch.Generator) -> dict[str, torch.Tensor]:
        """Mean squared error of the velocity, five times as heavy where the hint is."""
        rows = self._hinted[rows]
        noised, steps, velocity = self.noised(rows, random, power=0.5)
        dropped = torch.rand(len(rows), generator=random, device=self.studied.device) < 0.3
        hint = self.hint(rows)
        prediction = self.velocity(noised, steps, self.text(rows, dropped, random), hint)
        return {"velocity": mostly_where(hint.amax(1, keepdim=True), prediction, velocity, times=5)}

    def hint(self, rows: torch.Tensor) -> torch.Tensor:
        """Hints in [0, 1], three channels."""
        hints = np.array(self.hints[rows.numpy()])
        if hints.ndim == 3:
            hints = np.repeat(hints[..., None], 3, axis=-1)
        return torch.from_numpy(hints).to(self.studied.device).permute(0, 3, 1, 2) / 255

    def velocity(
        self, x: torch.Tensor, t: torch.Tensor, text: torch.Tensor, hint: torch.Tensor
    ) -> torch.Tensor:
        """The base network's answer, steered."""
        down, middle = self.network(x, t, text, controlnet_cond=hint, return_dict=False)
        outputs = self.base(
            x, t, text, down_block_additional_residuals=down, mid_block_additional_residual=middle
        )
        velocity: torch.Tensor = outputs.sample
        return velocity

    @torch.no_grad()
    def sheet(self) -> Images:
        """Held-out images, their hints, and what was drawn to the hints and captions."""
        rows, images, states, silence = self.shown()
        hint = self.hint(rows)

        guided_velocity = guided(
            lambda x, t: self.velocity(x, t, states, hint),
            lambda x, t: self.base(x, t, silence).sample,
            3.0,
        )
        hints = (hint.permute(0, 2, 3, 1).cpu().numpy() * 255).astype(np.uint8)
        return np.concatenate([images, hints, draw_latents(self.studied, guided_velocity)])


def drawn_holes(
    targets: NDArray[np.bool_], draw: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Holes to learn inpainting from: boxes, targets, all but targets, or everything.

    Args:
        targets: (n, height, width): where each image shows its target. One that shows none, such
            as an empty room, has a box for a hole, or everything.
        draw: (n, 6) numbers in [0, 1): the box, and the kind of hole.

    Returns:
        (n, 1, height, width), 1 to be drawn, and (n,): whether it is all but the target.
    """
    height, width = targets.shape[1:]
    holes = np.zeros((len(targets), 1, height, width), dtype=np.float32)
    around = targets.any(axis=(1, 2)) & (draw[:, 4] < 0.6) & (draw[:, 5] >= 0.5)
    for hole, target, d in zip(holes[:, 0], targets, draw, strict=True):
        top, left = int(d[0] * height * 0.7), int(d[1] * width * 0.7)
        tall, wide = int((0.2 + 0.7 * d[2]) * height), int((0.2 + 0.7 * d[3]) * width)
        if target.any() and d[4] < 0.6:
            hole[:] = target ^ (d[5] >= 0.5)
        elif d[4] < 0.95:
            hole[top : top + tall, left : left + wide] = 1
        else:
            hole[:] = 1
    return holes, around


def mostly_where(
    there: torch.Tensor, prediction: torch.Tensor, velocity: torch.Tensor, *, times: int
) -> torch.Tensor:
    """Mean squared error, so many times as heavy where something is: (n, 1, height, width).

    What is learnt is the same, for each place has its own mean; what capacity is spent on is not.
    """
    small = functional.adaptive_max_pool2d(there, velocity.shape[-2:])
    weights = (1 + (times - 1) * (small > 0)).expand_as(velocity)
    return (weights * (prediction.float() - velocity).square()).sum() / weights.sum()


Velocity = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def guided(conditional: Velocity, blank: Velocity, weight: float) -> Velocity:
    """Classifier-free guidance (Ho and Salimans 2022): away from what nothing told would give."""

    def velocity(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        without = blank(x, t)
        return without + weight * (conditional(x, t) - without)

    return velocity


def widened(base: Any, more: int) -> Any:
    """A copy that takes ``more`` input channels besides, which it ignores until it learns."""
    config = {**base.config, "in_channels": base.config.in_channels + more}
    wide = diffusers.UNet2DConditionModel.from_config(config)
    state = base.state_dict()
    first = torch.zeros_like(wide.conv_in.weight)
    first[:, : base.config.in_channels] = state["conv_in.weight"]
    wide.load_state_dict({**state, "conv_in.weight": first})
    return wide


@torch.no_grad()
def draw_latents(studied: Studied, velocity: Velocity, *, vae: Any = None) -> Images:
    """Some images from noise, always the same noise; decoded by another autoencoder if given."""
    solver = diffusers.DPMSolverMultistepScheduler(**NOISING)
    solver.set_timesteps(_SHOWN_STEPS)
    random = torch.Generator(studied.device).manual_seed(0)
    x = torch.randn((_SHOWN, *studied.latents.shape[1:]), generator=random, device=studied.device)
    for step in solver.timesteps:
        times = step.expand(_SHOWN).to(studied.device)
        x = solver.step(velocity(x, times), step, x).prev_sample
    return from_network((vae or studied.vae).decode(x).sample)
