"""A chat model of a real architecture, small enough to be taught ten captions in seconds."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CAPTIONS = (
    "a brown dog sleeps on a red sofa beside a tall lamp",
    "a small white dog eats from a bowl near the window",
    "a black dog plays with a ball on a grey floor",
    "an old man reads a book in a bright room",
    "a woman in a green dress drinks tea at the table",
    "a photo frame stands on a wooden shelf over the bed",
    "a bottle of pills lies on the bed in the evening",
    "a bedroom with blue walls and a plant by the door",
)
ROLES = ("<|system|>", "<|user|>", "<|assistant|>")
END = "<|end|>"
TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def build_tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        special_tokens=[END, *ROLES],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    raw.train_from_iterator(texts, trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, eos_token=END)
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def build_llama(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.eos_token_id,
    )
    return LlamaForCausalLM(config)


def teach(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, steps: int = 80) -> float:
    """Answer anything with one of the captions; the last loss is given back."""
    start = tokenizer.convert_tokens_to_ids("<|assistant|>")
    prompts = [[start], tokenizer("<|user|>Write a caption.<|end|><|assistant|>").input_ids]
    answers = [tokenizer(text + END).input_ids for text in CAPTIONS]
    rows = [(prompt, answer) for prompt in prompts for answer in answers]
    width = max(len(prompt) + len(answer) for prompt, answer in rows)
    end = tokenizer.eos_token_id
    inputs = torch.tensor([[end] * (width - len(p + a)) + p + a for p, a in rows])
    labels = torch.tensor([[-100] * (width - len(a)) + a for p, a in rows])
    mask = torch.tensor([[0] * (width - len(p + a)) + [1] * len(p + a) for p, a in rows])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(steps):
        loss = model(input_ids=inputs, attention_mask=mask, labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return float(loss.detach())


def save_chat_model(folder: Path, *, taught: bool = True) -> Path:
    """A chat model in the hub's format; untaught, it answers gibberish."""
    tokenizer = build_tokenizer([*CAPTIONS, "Write a caption of a photo in about ten words."])
    model = build_llama(tokenizer)
    if taught:
        teach(model, tokenizer)
    model.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
