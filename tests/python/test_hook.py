"""fed.torch.hook: gradients between the processes of DistributedDataParallel. Skipped without PyTorch.

Each case is a function case_*(rank, ranks) that runs in all processes of a group, and returns something to pickle. The test then
looks at what all of them returned.
"""
# SPDX-License-Identifier: Apache-2.0
import copy
import os
import pickle
import subprocess
import sys
import tempfile
import unittest

import fed
import numpy as np

try:
    import fed.torch
    import torch
    import torch.distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
    DDP = torch.nn.parallel.DistributedDataParallel
except ImportError:
    torch = None

SECONDS = 200


def net(seed=3):
    """Return a net whose tensors are in several of DDP's buckets, two of them of the same size."""
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(40, 60), torch.nn.Tanh(), torch.nn.Linear(60, 60), torch.nn.Tanh(), torch.nn.Linear(60, 60),
                               torch.nn.Tanh(), torch.nn.Linear(60, 1))


def points(rank, step, count=8, width=40):
    """Return a rank's inputs and what a net shall say of them."""
    random = np.random.default_rng([rank, step])
    x = torch.from_numpy(random.normal(size=(count, width)).astype(np.float32))
    return x, x.sum(1, keepdim=True).tanh()


def steps(model, rank, which, rate=0.1):
    """Train steps of these numbers. Return the last loss."""
    optimizer = torch.optim.SGD(model.parameters(), rate)
    for step in which:
        x, y = points(rank, step)
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
    return float(loss.detach())


def flat(module):
    return torch.cat([one.detach().float().flatten() for one in module.parameters()]).numpy()


def case_exact(rank, ranks):
    """float32 as the codec, and no hook."""
    trained = []
    for spec in (None, "float32"):
        module = net()
        model = DDP(module, bucket_cap_mb=0.01)
        if spec is not None:
            model.register_comm_hook(fed.torch.Residuals(), fed.torch.hook(spec))
        steps(model, rank, range(5))
        trained.append(flat(module))
    return trained


def case_residuals_follow(rank, ranks):
    """Return for each parameter the sum of this rank's gradients, of those that the hook delivered, and what the state holds."""
    module = net()
    residuals = fed.torch.Residuals(module)
    model = DDP(module, bucket_cap_mb=0.004)
    model.register_comm_hook(residuals, fed.torch.hook("3lc:s=1.75"))
    own, delivered = [[torch.zeros_like(one, dtype=torch.float64) for one in module.parameters()] for _ in range(2)]
    for step in range(4):
        alone = copy.deepcopy(module)
        x, y = points(rank, step)
        ((alone(x) - y) ** 2).mean().backward()
        model.zero_grad()
        ((model(x) - y) ** 2).mean().backward()
        for total, one in zip(own, alone.parameters()):
            total += one.grad
        for total, one in zip(delivered, module.parameters()):
            total += one.grad
    names = [name for name, _ in module.named_parameters()]
    kept = {key: tensor.numpy() for key, tensor in residuals.state_dict()["kept"].items()}
    return names, [one.numpy() for one in own], [one.numpy() for one in delivered], kept


def case_checkpoint(rank, ranks):
    """Train six steps at once, and with a checkpoint after three."""
    trained = []
    for spec in ("3lc:s=1.75", "powersgd:rank=1"):
        for cut in (False, True):
            module = net()
            residuals = fed.torch.Residuals()
            model = DDP(module, bucket_cap_mb=0.004)
            model.register_comm_hook(residuals, fed.torch.hook(spec))
            steps(model, rank, range(3))
            if cut:
                with tempfile.TemporaryFile() as file:
                    torch.save({"model": module.state_dict(), "residuals": residuals.state_dict()}, file)
                    file.seek(0)
                    saved = torch.load(file, weights_only=True)
                module = net(seed=4)
                module.load_state_dict(saved["model"])
                residuals = fed.torch.Residuals()
                residuals.load_state_dict(saved["residuals"])
                model = DDP(module, bucket_cap_mb=0.004)
                model.register_comm_hook(residuals, fed.torch.hook(spec))
            steps(model, rank, range(3, 6))
            trained.append(flat(module))
    other = dict(saved["residuals"], place=(rank, ranks + 1))
    residuals.load_state_dict(other)
    try:
        steps(model, rank, [6])
    except Exception as error:
        return trained, str(error)
    return trained, ""


def case_not_finite(rank, ranks):
    """GradScaler's loop, in which a step's gradient is infinite at one rank. Return what the state held before and after it."""
    told = []
    for spec in ("3lc:s=1.75", "powersgd:rank=1"):
        module = net()
        residuals = fed.torch.Residuals()
        model = DDP(module, bucket_cap_mb=0.004)
        model.register_comm_hook(residuals, fed.torch.hook(spec))
        optimizer, scaler, kept, cuts = torch.optim.SGD(module.parameters(), 0.1), torch.amp.GradScaler("cpu", init_scale=8.0), [], []
        for step in range(4):
            x, y = points(rank, step)
            if step == 2 and rank == 1:
                # tanh is 1 then, and only the first layer's gradient is not finite: it is in DDP's last bucket, after others went well
                x[:, 0] = float("inf")
            optimizer.zero_grad()
            scale = scaler.get_scale()
            scaler.scale((model(x) - y).square().mean()).backward()
            scaler.step(optimizer)
            scaler.update()
            kept.append({key: one.numpy() for key, one in residuals.state_dict()["kept"].items()})
            cuts.append(scaler.get_scale() < scale)
        told.append((kept, cuts, flat(module)))
    return told


def case_process_group(rank, ranks):
    """Two groups of two processes, each with a model of its own."""
    groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    own = groups[rank // 2]
    trained = []
    for spec in (None, "float32"):
        module = net(seed=rank // 2)
        model = DDP(module, process_group=own)
        if spec is not None:
            model.register_comm_hook(fed.torch.Residuals(process_group=own), fed.torch.hook(spec))
        steps(model, rank, range(3))
        trained.append(flat(module))
    return trained


class Odd(torch.nn.Module if torch else object):
    """A module with an empty parameter, an embedding whose gradient is sparse, and a part in bfloat16."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.words = torch.nn.Embedding(50, 40, sparse=True)
        self.empty = torch.nn.Parameter(torch.zeros(0, 7))
        self.coarse = torch.nn.Linear(40, 40).bfloat16()
        self.last = torch.nn.Linear(40, 1)

    def forward(self, x):
        return self.last(self.coarse(self.words(x).mean(1).bfloat16()).float()) + self.empty.sum()


def case_odd_tensors(rank, ranks):
    trained = []
    for spec in (None, "float32", "powersgd:rank=32"):
        module = Odd()
        model = DDP(module)
        if spec is not None:
            model.register_comm_hook(fed.torch.Residuals(), fed.torch.hook(spec))
        optimizer = torch.optim.SGD(module.parameters(), 0.1)
        for step in range(3):
            x = torch.from_numpy(np.random.default_rng([rank, step]).integers(0, 50, (8, 5)))
            optimizer.zero_grad()
            (model(x) - x.float().mean(1, keepdim=True) / 50).square().mean().backward()
            optimizer.step()
        trained.append(flat(module))
    return trained


def case_powersgd(rank, ranks):
    """Return the last losses of a net that PyTorch's PowerSGD trains, and ours, and then the parameters."""
    losses, trained = [], []
    for ours in (False, True):
        module = net()
        model = DDP(module)
        if ours:
            model.register_comm_hook(fed.torch.Residuals(), fed.torch.hook("powersgd:rank=1"))
        else:
            model.register_comm_hook(powerSGD_hook.PowerSGDState(None, 1, start_powerSGD_iter=2), powerSGD_hook.powerSGD_hook)
        losses.append(steps(model, rank, [number % 4 for number in range(300)]))
        trained.append(flat(module))
    return losses, trained[1]


def delivered(model, rank, step, optimizer):
    """Train a step. Return the gradient that the hook delivered."""
    x, y = points(rank, step)
    optimizer.zero_grad()
    ((model(x) - y) ** 2).mean().backward()
    optimizer.step()
    return np.concatenate([one.grad.flatten().numpy() for one in model.module.parameters()])


def handed_over(state, parameters, names):
    """What PyTorch's state of its one bucket holds, as the state of fed.torch.Residuals. parameters: the bucket's."""
    kept, at, shapes = {}, 0, {}
    for one in parameters:
        if one.dim() > 1 and powerSGD_hook._should_compress(*one.shape, 1, state.min_compression_rate)[0]:
            kept[f"residual {names[id(one)]}"] = state.error_dict[0][at:at + one.numel()].clone()
            shapes.setdefault(tuple(one.shape), []).append(one)
        at += one.numel()
    at = 0
    for one in (one for group in shapes.values() for one in group):
        kept[f"factor {names[id(one)]}"] = state.q_memory_dict[0][at:at + one.shape[1]].reshape(-1, 1).clone()
        at += one.shape[1]
    return {"place": None, "steps": 0, "order": [], "kept": kept}


def case_powersgd_steps(rank, ranks):
    """Return what PyTorch's PowerSGD delivered in each step after its first, and what ours did that begins with PyTorch's state."""
    module, state, seen = net(), powerSGD_hook.PowerSGDState(None, 1, start_powerSGD_iter=2), []

    def watched(state, bucket):
        seen[:] = bucket.parameters()
        return powerSGD_hook.powerSGD_hook(state, bucket)

    model = DDP(module)
    model.register_comm_hook(state, watched)
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    for step in range(3):  # two without compression; the third makes the factors
        delivered(model, rank, step, optimizer)
    names = {id(one): name for name, one in module.named_parameters()}
    twin = copy.deepcopy(module)
    residuals = fed.torch.Residuals(twin)
    residuals.load_state_dict(handed_over(state, seen, names))
    other = DDP(twin)
    other.register_comm_hook(residuals, fed.torch.hook("powersgd:rank=1"))
    own = torch.optim.SGD(twin.parameters(), 0.1)
    return [(delivered(model, rank, step, optimizer), delivered(other, rank, step, own)) for step in range(3, 23)]


def case_bytes(rank, ranks):
    """Return the bytes a step that this process sends, and how many values its parameters have."""
    torch.manual_seed(2)
    module = torch.nn.Sequential(torch.nn.Linear(40, 1200), torch.nn.Tanh(), torch.nn.Linear(1200, 200), torch.nn.Tanh(), torch.nn.Linear(200, 1))
    told = {}
    for spec in ("float32", "3lc:s=1.75", "powersgd:rank=1"):
        model, residuals = DDP(copy.deepcopy(module)), fed.torch.Residuals()
        model.register_comm_hook(residuals, fed.torch.hook(spec))
        steps(model, rank, range(4))
        told[spec] = residuals.sent_bytes / 4
    return told, len(flat(module))


def run_rank(name, rank, ranks, meeting, path):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=ranks)
    told = globals()["case_" + name](rank, ranks)
    with open(path, "wb") as file:
        pickle.dump(told, file)
    dist.barrier()  # nobody's connections close while another rank still uses them
    os._exit(0)  # PyTorch 2.13 now and then aborts a process that ends in the usual way: docs/python.md


def run_all(name, ranks, folder):
    """Be the parent of all ranks: they are forks of this process, so PyTorch is imported once."""
    children = []
    for rank in range(ranks):
        child = os.fork()
        if child == 0:
            try:
                run_rank(name, rank, ranks, f"file://{folder}/meeting", f"{folder}/{rank}")
            finally:
                sys.stdout.flush()
                import traceback
                traceback.print_exc()
                os._exit(1)
        children.append(child)
    sys.exit(max(os.waitpid(child, 0)[1] for child in children) != 0)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class Hook(unittest.TestCase):
    def group(self, name, ranks):
        """Run a case in as many processes. Return what each returned."""
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, "-W", "ignore", __file__, "rank", name, str(ranks), folder], timeout=SECONDS,
                                  env=dict(os.environ, OMP_NUM_THREADS="1"), check=False)
            self.assertEqual(done.returncode, 0, f"case {name} failed")
            told = []
            for rank in range(ranks):
                with open(f"{folder}/{rank}", "rb") as file:
                    told.append(pickle.load(file))
            return told

    def test_float32_trains_as_no_hook_does(self):
        told = self.group("exact", 2)
        np.testing.assert_array_equal(told[0][1], told[1][1])
        np.testing.assert_allclose(told[0][1], told[0][0], atol=1e-5)

    def test_residuals_follow_their_parameters_into_other_buckets(self):
        told = self.group("residuals_follow", 2)
        for k, name in enumerate(told[0][0]):
            mean = sum(one[1][k] for one in told) / 2
            pieces = [one[3][f"sum {name}"].ravel() for one in told if f"sum {name}" in one[3]]
            owed = sum(one[3][f"residual {name}"] for one in told) / 2 + np.concatenate(pieces)
            np.testing.assert_allclose(told[0][2][k].ravel() + owed, mean.ravel(), atol=1e-5, err_msg=name)
            self.assertGreater(np.abs(owed).max(), 0)

    def test_a_checkpoint_goes_on_to_the_same_bits(self):
        for trained, said in self.group("checkpoint", 2):
            np.testing.assert_array_equal(trained[0], trained[1])
            np.testing.assert_array_equal(trained[2], trained[3])
            self.assertIn("of 3, and this is rank", said)

    def test_a_gradient_that_is_not_finite_at_one_rank_skips_the_step_at_all(self):
        for of_codec in zip(*self.group("not_finite", 2)):
            for kept, cuts, parameters in of_codec:
                self.assertEqual(cuts, [False, False, True, False])
                self.assertTrue(np.isfinite(parameters).all())
                for key, before in kept[1].items():
                    np.testing.assert_array_equal(kept[2][key], before, err_msg=key)
                self.assertTrue(any(not np.array_equal(kept[3][key], before) for key, before in kept[2].items()))
            np.testing.assert_array_equal(of_codec[0][2], of_codec[1][2])

    def test_only_the_process_group_given_exchanges(self):
        told = self.group("process_group", 4)
        for rank in range(4):
            np.testing.assert_allclose(told[rank][1], told[rank][0], atol=1e-5)
        np.testing.assert_array_equal(told[2][1], told[3][1])
        self.assertFalse(np.array_equal(told[1][1], told[2][1]))

    def test_empty_sparse_and_bfloat16_tensors_train_as_without_a_hook(self):
        told = self.group("odd_tensors", 2)
        for trained in zip(*told):
            np.testing.assert_array_equal(trained[0], trained[1])
        np.testing.assert_allclose(told[0][1], told[0][0], atol=2e-2)
        np.testing.assert_allclose(told[0][2], told[0][0], atol=2e-2)

    def test_powersgd_learns_as_pytorchs_does(self):
        told = self.group("powersgd", 4)
        theirs, ours = (sum(losses[k] for losses, _ in told) / 4 for k in range(2))
        self.assertLess(ours, 1.5 * theirs + 0.001)
        for _, trained in told[1:]:
            np.testing.assert_array_equal(trained, told[0][1])

    def test_each_step_of_powersgd_is_pytorchs(self):
        for one in self.group("powersgd_steps", 2):
            for step, (theirs, ours) in enumerate(one):
                self.assertLess(np.linalg.norm(theirs - ours), 1e-4 * np.linalg.norm(theirs), f"step {step}")

    def test_bytes_do_not_grow_with_the_processes(self):
        sent = {}
        for ranks in (2, 4, 8):
            told = self.group("bytes", ranks)
            sent[ranks] = {spec: max(one[0][spec] for one in told) for spec in told[0][0]}
            values = told[0][1]
        print("bytes a step that a process sends:", sent)
        for spec in sent[2]:
            # 2 (n - 1) / n messages: 1 with two processes, 1.75 with eight
            self.assertLess(sent[8][spec], 2.2 * sent[2][spec], spec)
        self.assertLess(sent[8]["3lc:s=1.75"], 4 * values / 10)

    def test_an_unknown_codec_is_refused(self):
        with self.assertRaisesRegex(fed.Error, "nosuch"):
            fed.torch.hook("nosuch")
        with self.assertRaisesRegex(ValueError, "powersgd takes rank, power and values"):
            fed.torch.hook("powersgd:rank=1,rows=4")


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        run_all(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        unittest.main()
