"""Compare simulations of the same PyTorch module: fed.simulate, Flower's, pfl-research's, and a plain loop that only trains.

    python_simulate.py [kinds=plain,fed,flower,pfl] [models=lr,cnn] [clients=100,1000] [cohort=50] [rounds=2,12] [repeats=1]
                       [processes=1] [steps=20] [rate=0.1] [codec=float32]

Clients hold equal parts of MNIST, and train `steps` batches a round that make one pass through at most 320 samples. Each kind runs
with the smaller and the larger number of rounds, in turn. The difference is the cost of the rounds alone: without imports, Ray's start
or enrolment, which stand in a column of their own. CPU is that of all processes of a run, also of those that have left their parent.
A first run of fed enrols its clients, which later ones of as many clients take up: its CPU stands in brackets. Accuracy is that of the
longer run's model on the 10,000 test pictures. It needs torch, flwr[simulation], pfl and the package fed, of which those missing are
left out; FED_MNIST_DIR names MNIST's folder. With run=fed, or another kind, it runs that kind once with that many rounds. The exit status is 77 where torch or fed is missing.
"""
# SPDX-License-Identifier: Apache-2.0
import ctypes
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import threading
import time

try:
    import numpy as np
    import torch

    import python_lenet as lenet
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

OPTIONS = {"kinds": "plain,fed,flower,pfl", "models": "lr,cnn", "clients": "100,1000", "cohort": "50", "rounds": "2,12", "repeats": "1",
           "processes": "1", "steps": "20", "rate": "0.1", "codec": "float32", "run": "", "crowd": ""}
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER


class LossModule(torch.nn.Module):
    """A module with the methods that pfl-research asks for."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)

    def loss(self, x, y):
        self.train()
        return torch.nn.functional.cross_entropy(self(x), y)

    def metrics(self, x, y):
        return {}


def make_module(model):
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10)) if model == "lr" else lenet.lenet()


def make_shards(options):
    """The clients' parts, and the batch with which `steps` steps make one pass or less."""
    x, y = lenet.mnist("train")
    clients, steps = int(options["clients"]), int(options["steps"])
    order = np.random.default_rng(7).permutation(len(y))
    parts = [torch.from_numpy(order[k::clients].copy()) for k in range(clients)]
    batch = max(1, min(16, len(y) // clients // steps))
    return [(x[part][:batch * steps], y[part][:batch * steps]) for part in parts], batch


def accuracy(module):
    module.eval()
    return lenet.accuracy(module, *lenet.mnist("t10k"))


def train_steps(module, x, y, options, batch, order):
    optimizer = torch.optim.SGD(module.parameters(), lr=float(options["rate"]))
    module.train()
    for step in range(int(options["steps"])):
        pick = order[step * batch:(step + 1) * batch]
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(module(x[pick]), y[pick]).backward()
        optimizer.step()


def run_plain(options):
    """Train the clients of each round one after the other, and average: what cannot be left out."""
    torch.set_num_threads(1)
    module, (shards, batch) = make_module(options["models"]), make_shards(options)
    parameters, random = list(module.parameters()), np.random.default_rng(3)
    state = [one.detach().clone() for one in parameters]
    for _ in range(int(options["rounds"])):
        total = [torch.zeros_like(one) for one in state]
        for k in random.choice(len(shards), int(options["cohort"]), replace=False):
            with torch.no_grad():
                for one, first in zip(parameters, state):
                    one.copy_(first)
            train_steps(module, *shards[k], options, batch, torch.from_numpy(random.permutation(len(shards[k][1]))))
            with torch.no_grad():
                for sum_, one in zip(total, parameters):
                    sum_ += one / int(options["cohort"])
        state = total
    with torch.no_grad():
        for one, values in zip(parameters, state):
            one.copy_(values)
    return accuracy(module)


def run_fed(options):
    import fed
    import fed.torch

    shards, batch = make_shards(options)
    with tempfile.TemporaryDirectory() as folder:
        result = fed.simulate(lambda: make_module(options["models"]), shards, rounds=options["rounds"], cohort=options["cohort"],
                              local_steps=options["steps"], batch=batch, learning_rate=options["rate"], codec_up=options["codec"],
                              codec_down=options["codec"] if options["codec"] == "float32" else "3lc:s=1+entropy", evaluate_every=1000000,
                              crowd=options["crowd"], processes=int(options["processes"]), quiet=True, out=folder + "/out")
        module = make_module(options["models"])
        fed.torch.load(module, result.model())
        own = 1 - result.summary["train_cpu_s"] / result.summary["total_cpu_s"]
        print(f"{100 * own:.1f} % of the CPU time is fedsim's own: coordinator, clients, codecs")
    return accuracy(module)


def run_flower(options):
    import logging

    import flwr
    from flwr.client import ClientApp, NumPyClient
    from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
    from flwr.server import ServerApp, ServerAppComponents, ServerConfig
    from flwr.server.strategy import FedAvg
    from flwr.simulation import run_simulation

    logging.getLogger("flwr").setLevel(logging.ERROR)
    kept = {}

    class Client(NumPyClient):
        def __init__(self, k):
            self.k = k

        def fit(self, parameters, config):
            cache = vars(lenet).setdefault("flower", {})  # of the process: Ray sends what is in this file anew with each call
            if not cache:
                torch.set_num_threads(1)
                cache["shards"], cache["batch"] = make_shards(options)
                cache["module"] = make_module(options["models"])
            module, (x, y) = cache["module"], cache["shards"][self.k]
            with torch.no_grad():
                for one, values in zip(module.parameters(), parameters):
                    one.copy_(torch.from_numpy(np.array(values)))
            random = np.random.default_rng([self.k, config["round"]])
            train_steps(module, x, y, options, cache["batch"], torch.from_numpy(random.permutation(len(y))))
            return [one.detach().numpy() for one in module.parameters()], len(y), {}

    class Last(FedAvg):
        def aggregate_fit(self, number, results, failures):
            assert not failures, failures
            made = super().aggregate_fit(number, results, failures)
            kept["model"] = made[0]
            return made

    def server(context):
        first = ndarrays_to_parameters([one.detach().numpy() for one in make_module(options["models"]).parameters()])
        cohort, clients = int(options["cohort"]), int(options["clients"])
        strategy = Last(fraction_fit=cohort / clients, fraction_evaluate=0.0, min_fit_clients=cohort, min_available_clients=clients,
                        initial_parameters=first, on_fit_config_fn=lambda number: {"round": number})
        return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=int(options["rounds"])))

    client = ClientApp(client_fn=lambda context: Client(int(context.node_config["partition-id"])).to_client())
    processes = int(options["processes"])
    run_simulation(ServerApp(server_fn=server), client, num_supernodes=int(options["clients"]),
                   backend_config={"init_args": {"num_cpus": processes, "include_dashboard": False, "logging_level": "ERROR"},
                                   "client_resources": {"num_cpus": 1, "num_gpus": 0.0}})
    module = make_module(options["models"])
    with torch.no_grad():
        for one, values in zip(module.parameters(), parameters_to_ndarrays(kept["model"])):
            one.copy_(torch.from_numpy(values))
    return accuracy(module)


def run_pfl(options):
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.data.dataset import Dataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam.base import NNEvalHyperParams, NNTrainHyperParams
    from pfl.model.pytorch import PyTorchModel

    torch.set_num_threads(1)
    shards, batch = make_shards(options)
    random = np.random.default_rng(3)

    def dataset_of(k):
        x, y = shards[k]
        order = torch.from_numpy(random.permutation(len(y)))  # in pfl a pass takes the samples in their order
        return Dataset((x[order], y[order]), user_id=str(k))

    training = FederatedDataset(dataset_of, get_user_sampler("random", list(range(len(shards)))))
    module = LossModule(make_module(options["models"]))
    model = PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0))
    rounds = int(options["rounds"])
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(central_num_iterations=rounds, evaluation_frequency=rounds + 1,
                                           train_cohort_size=int(options["cohort"]), val_cohort_size=0),
        backend=SimulatedBackend(training_data=training, val_data=None), model=model,
        model_train_params=NNTrainHyperParams(local_num_epochs=1, local_learning_rate=float(options["rate"]), local_batch_size=batch),
        model_eval_params=NNEvalHyperParams(local_batch_size=batch))
    return accuracy(module)


def memory_of(root):
    """Bytes that a process and its descendants hold, shared ones divided among those that share them."""
    parents = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parents.setdefault(int(path.read_text().rsplit(")", 1)[1].split()[1]), []).append(int(path.parent.name))
        except (OSError, ValueError, IndexError):
            continue
    found, todo = 0, [root]
    while todo:
        one = todo.pop()
        todo += parents.get(one, [])
        try:
            found += 1024 * int(pathlib.Path(f"/proc/{one}/smaps_rollup").read_text().split("\nPss:")[1].split()[0])
        except (OSError, IndexError):
            continue
    return found


def measure(options):
    """Run one kind in a process of its own. Returns its CPU and wall seconds, most memory, and accuracy."""
    before, began, peak, over = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic(), [0], threading.Event()
    words = [f"{name}={value}" for name, value in options.items()]
    with tempfile.TemporaryFile("w+") as errors, subprocess.Popen([sys.executable, __file__, *words], stdout=subprocess.PIPE, stderr=errors,
                                                                   text=True) as process:

        def look():
            while not over.wait(1.0):
                peak[0] = max(peak[0], memory_of(process.pid))

        looking = threading.Thread(target=look)
        looking.start()
        out = process.communicate()[0]
        over.set()
        looking.join()
        if process.returncode != 0:
            errors.seek(0)
            print(errors.read()[-3000:], file=sys.stderr)
            raise SystemExit(f"{options['run']} failed with status {process.returncode}")
    wall = time.monotonic() - began
    for _ in range(1000):  # processes whose parents have ended
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.05)
        except ChildProcessError:
            break
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"cpu": cpu, "wall": wall, "peak": peak[0], "accuracy": json.loads(out.splitlines()[-1])["accuracy"]}


def compare(options, kinds):
    """Measure all kinds alternately, and print a row for each."""
    short, long = (int(one) for one in options["rounds"].split(","))
    times = {kind: {short: [], long: []} for kind in kinds}
    enrolled = measure({**options, "run": "fed", "rounds": "1"})["cpu"] if "fed" in kinds else 0.0  # kept for the runs that are measured
    for _ in range(int(options["repeats"])):
        for rounds in (short, long):
            for kind in kinds:
                times[kind][rounds].append(measure({**options, "run": kind, "rounds": str(rounds)}))
    updates = (long - short) * int(options["cohort"])
    for kind in kinds:
        few, many = (sorted(times[kind][rounds], key=lambda one: one["cpu"])[len(times[kind][rounds]) // 2] for rounds in (short, long))
        cpu, wall = (many[name] - few[name] for name in ("cpu", "wall"))
        start = few["cpu"] - cpu * short / (long - short)
        once = f" (once {enrolled:.1f})" if kind == "fed" else ""
        print(f"| {options['models']} | {options['clients']} | {kind} | {updates / wall:.1f} | {1e3 * cpu / updates:.2f} | {start:.1f}{once} | "
              f"{many['peak'] / 1e6:.0f} | {100 * many['accuracy']:.2f} |", flush=True)


def main():
    options = dict(OPTIONS)
    for word in sys.argv[1:]:
        name, _, value = word.partition("=")
        if name not in options:
            sys.exit(f"unknown option {name}\n{__doc__}")
        options[name] = value
    if options["run"]:
        print(json.dumps({"accuracy": globals()["run_" + options["run"]](options)}))
        return
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    needs = {"plain": "torch", "fed": "fed", "flower": "flwr.simulation, ray", "pfl": "pfl"}
    kinds = []
    for kind in options["kinds"].split(","):
        there = subprocess.run([sys.executable, "-c", f"import {needs[kind]}"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        if there.returncode == 0:
            kinds.append(kind)
        else:
            print(f"{kind} is left out: {there.stderr.decode().strip().splitlines()[-1]}")
    with tempfile.TemporaryDirectory() as crowd:
        options["crowd"] = options["crowd"] or crowd
        print("| model | clients | | clients a second | CPU a client, ms | CPU of the start, s | memory, MB | accuracy, % |\n"
              "|---|--:|---|--:|--:|--:|--:|--:|", flush=True)
        for model in options["models"].split(","):
            for clients in options["clients"].split(","):
                compare({**options, "models": model, "clients": clients}, kinds)


main()
