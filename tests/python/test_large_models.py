"""GPT-2 small, BERT-base, ViT-B/16 and ResNet-50, as architectures with random weights: two devices train each for two rounds.

Each device is a process. The test prints the most memory that each process had. It needs transformers; models are not downloaded.
"""
# SPDX-License-Identifier: Apache-2.0
import importlib.util
import pathlib
import subprocess
import sys
import unittest

import fed
from coordinator import CoordinatorTest

HERE = pathlib.Path(__file__).resolve()
MISSING = [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]
ROUNDS, DEVICES, SECONDS = 2, 2, 1200


def make(name):
    """Return a model with random weights, the same at each call, and a small batch for it."""
    import torch
    import transformers as t
    torch.manual_seed(1)
    tokens = torch.randint(0, 1000, (1, 16))
    pictures = {"pixel_values": torch.rand(1, 3, 224, 224), "labels": torch.tensor([7])}
    if name == "gpt2":
        return t.GPT2LMHeadModel(t.GPT2Config()), {"input_ids": tokens, "labels": tokens}
    if name == "bert":
        return t.BertForMaskedLM(t.BertConfig()), {"input_ids": tokens, "labels": tokens}
    if name == "vit":
        return t.ViTForImageClassification(t.ViTConfig(num_labels=1000)), pictures
    return t.ResNetForImageClassification(t.ResNetConfig(num_labels=1000)), {"pixel_values": torch.rand(2, 3, 224, 224), "labels": torch.tensor([7, 8])}


def peak_mib(status="/proc/self/status"):
    """Return the most memory that a process has had, in MiB."""
    return int(next(line for line in pathlib.Path(status).read_text().splitlines() if line.startswith("VmHWM")).split()[1]) // 1024


def device(name, url, ca, folder, token):
    import fed.torch
    import torch
    torch.set_num_threads(1)
    with fed.Client(url, ca, folder, token) as client:
        print("enrolled", flush=True)
        module, batch = make(name)
        fed.torch.run(client, module, [batch])
    print(peak_mib())


def first(name, folder):
    """Write the first model and its text, in a process that then gives its memory back."""
    import fed.torch
    module, _ = make(name)
    fed.torch.save(module, f"{folder}/first.safetensors")
    text = fed.torch.layout(module)
    pathlib.Path(folder, "model.txt").write_text(text, encoding="ascii")
    print(sum(one.numel() for one in module.parameters()), text.count("|") + 1)


@unittest.skipIf(MISSING, f"not installed: {', '.join(MISSING)}")
class LargeModels(CoordinatorTest):
    def start(self, *words):
        process = subprocess.Popen([sys.executable, "-W", "ignore", HERE, *words], stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        return process

    def said(self, process):
        said = process.communicate(timeout=SECONDS)[0]
        self.assertEqual(process.returncode, 0)
        return said.split()

    def train(self, name, values):
        parameters, tensors = self.said(self.start("first", name, self.folder))
        self.assertEqual(int(parameters), values)
        tokens = self.coordinator.tokens(DEVICES)
        devices = [self.start("device", name, self.coordinator.url, str(self.coordinator.ca), f"{self.folder}/device{k}", tokens[k])
                   for k in range(DEVICES)]
        for one in devices:
            self.assertEqual(one.stdout.readline(), "enrolled\n")
        task = self.coordinator.submit({
            "name": name, "model": "@" + self.folder + "/model.txt", "initial": self.folder + "/first.safetensors", "rounds": ROUNDS,
            "cohort": DEVICES, "minimum": DEVICES, "local_steps": 1, "learning_rate": 0.01, "device_share": 1, "codec_up": "sbc:p=0.001",
            "codec_down": "sbc:p=0.002"})
        peaks = [int(self.said(one)[0]) for one in devices]
        rounds = list(self.coordinator.rounds(task))
        self.assertEqual([row["updates"] for row in rounds], [DEVICES] * ROUNDS)
        self.assertTrue(all(row["loss"] > 0 for row in rounds))
        server = peak_mib(f"/proc/{self.coordinator._process.pid}/status")
        print(f"{name}: {values:,} parameters in {tensors} tensors; MiB at most: {max(peaks):,} in a device, {server:,} in the coordinator; "
              f"an update took {rounds[-1]['update_bytes'] / DEVICES / 1e3:,.0f} kB", flush=True)

    def test_gpt2_small(self):
        self.train("gpt2", 124_439_808)

    def test_bert_base(self):
        self.train("bert", 109_514_298)

    def test_vit_b_16(self):
        self.train("vit", 86_567_656)

    def test_resnet_50(self):
        self.train("resnet", 25_557_032)


if __name__ == "__main__":
    if sys.argv[1:2] == ["device"]:
        device(*sys.argv[2:])
    elif sys.argv[1:2] == ["first"]:
        first(*sys.argv[2:])
    else:
        unittest.main()
