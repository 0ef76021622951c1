"""LoRA with PEFT and Hugging Face's Trainer: two devices fine-tune a GPT-2-shaped model, and only the adapters travel.

    pip install torch transformers peft accelerate
    python lora_trainer.py

The model has GPT-2's architecture and random weights, so nothing is downloaded. For a real one say GPT2LMHeadModel.from_pretrained(...)
on each device: it is the same everywhere, and never travels.
"""
# SPDX-License-Identifier: Apache-2.0
import concurrent.futures
import pathlib
import tempfile
import threading
from typing import Any

import numpy as np
import peft
import torch
import transformers

import fed
import fed.torch

DEVICES, ROUNDS = 2, 4
TRAINER = threading.Lock()  # the devices here share a process, and Trainer has state that is the process's: they take turns


def model() -> Any:
    """Return the frozen base with its adapters, the same on each device."""
    torch.manual_seed(1)
    base = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=106, n_positions=64, n_embd=128, n_layer=3, n_head=4))
    return peft.get_peft_model(base, peft.LoraConfig(r=8, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM"))


def texts(number: int) -> list[dict[str, torch.Tensor]]:
    """Return a device's own texts: each token is the one before it, plus one or two."""
    random = np.random.default_rng(number)
    tokens = (random.integers(0, 106, (64, 1)) + np.cumsum(random.integers(1, 3, (64, 32)), axis=1)) % 106
    return [{"input_ids": row, "labels": row} for row in torch.from_numpy(tokens)]


class Tell(transformers.TrainerCallback):  # type: ignore[misc,unused-ignore]
    """Tells the client how far the training is, and ends it when nobody wants its result any more."""

    def __init__(self, told: fed.Round):
        self.told = told

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.told.progress(state.global_step, state.max_steps)
        self.told.wanted()


def device(number: int, own: Any, coordinator: fed.Coordinator, folder: pathlib.Path, token: str) -> None:
    data = texts(number)

    def train(params: dict[str, np.ndarray], told: fed.Round) -> tuple[None, int, dict[str, float]]:
        if told.optimizer != "adamw:decay=0+stateless":  # Trainer's own below, with its defaults
            raise fed.Decline(f"this device trains with adamw, not with {told.optimizer}")
        with TRAINER:
            fed.torch.load(own, params)
            arguments = transformers.TrainingArguments(
                output_dir=str(folder / f"trainer{number}"), max_steps=told.local_steps, per_device_train_batch_size=told.batch,
                learning_rate=told.learning_rate, lr_scheduler_type="constant", max_grad_norm=0, seed=told.number, report_to=[],
                save_strategy="no", logging_strategy="no", disable_tqdm=True, use_cpu=True)
            trainer = transformers.Trainer(model=own, args=arguments, train_dataset=data, callbacks=[Tell(told)])
            trainer.remove_callback(transformers.PrinterCallback)
            loss: float = trainer.train().training_loss
        fed.torch.store(own, params)
        return None, len(data), {"loss": loss}

    with fed.Client(coordinator.url, coordinator.ca, folder / f"device{number}", token) as client:
        client.run(train)


def main() -> None:
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    first = model()
    trained = sum(one.numel() for one in first.parameters() if one.requires_grad)
    print(f"{trained:,} of {sum(one.numel() for one in first.parameters()):,} values travel")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        fed.torch.save(first, folder / "first.safetensors")
        with fed.Coordinator(folder / "coordinator") as coordinator:
            task = coordinator.submit({
                "name": "lora", "model": fed.torch.layout(first), "initial": folder / "first.safetensors", "rounds": ROUNDS,
                "cohort": DEVICES, "minimum": DEVICES, "local_steps": 16, "batch": 8, "optimizer": "adamw:decay=0+stateless",
                "learning_rate": 0.01, "codec_up": "float32"})
            tokens = coordinator.tokens(DEVICES)
            models = [model() for _ in range(DEVICES)]  # not in the threads, which share PyTorch's seed
            with concurrent.futures.ThreadPoolExecutor(DEVICES) as pool:
                list(pool.map(lambda number: device(number, models[number], coordinator, folder, tokens[number]), range(DEVICES)))
            rounds = list(coordinator.rounds(task))
            fed.torch.load(first, coordinator.model(task))
    print(f"loss {rounds[0]['loss']:.3f} in round 1, {rounds[-1]['loss']:.3f} in round {len(rounds)}; "
          f"an update took {rounds[-1]['update_bytes'] / DEVICES:,.0f} bytes")


if __name__ == "__main__":
    main()
