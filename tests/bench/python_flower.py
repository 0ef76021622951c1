"""Compare Flower and fed with the same PyTorch model, clients and rounds: bytes, CPU, memory, wall-clock time.

    python_flower.py [clients=5] [rounds=10] [steps=10] [batch=16] [rate=0.1] [kinds=flower,float32,eden,3lc]

Each client is a process, which holds one NumPyClient: under Flower by start_client, under fed by fed.flower. Both speak TLS. The
server and the clients are in two network namespaces, and a veth pair between them counts bytes. CPU is user and system time from
the moment at which a process has imported and loaded everything; training is counted separately. It needs root, ip,
openssl, torch, flwr and the package fed; FED_MNIST_DIR names MNIST's folder. The exit status is 77 where one is missing.
"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

try:
    import fed
    import fed.flower
    import torch

    import python_lenet as lenet
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

OPTIONS = {"clients": 5, "rounds": 10, "steps": 10, "batch": 16, "rate": 0.1, "kinds": "flower,float32,eden,3lc"}
PORT, ADDRESS = 9092, "10.79.0.1"
SPACES = ("fedbench-s", "fedbench-c")
# Codecs of updates and of downloads.
KINDS = {"flower": None, "float32": ("float32", "float32"), "eden": ("eden:p=0.008", "eden"), "3lc": ("3lc:s=1", "3lc:s=1")}


class Trainer:
    """Train LeNet on a client's share of MNIST, and count the CPU time of training. Each NumPyClient has a Trainer."""

    def __init__(self, number, options):
        x, y = lenet.mnist("train")
        own = slice(number, None, options["clients"])
        self.module, self.options, self.cpu = lenet.lenet(), options, 0.0
        self.batches, self.samples = lenet.batches(x[own], y[own], options["batch"], number), len(y[own])

    def get_parameters(self, config):
        return [one.detach().numpy() for one in self.module.parameters()]

    def fit(self, parameters, config):
        begin = time.process_time()
        with torch.no_grad():
            for one, values in zip(self.module.parameters(), parameters):
                one.copy_(torch.from_numpy(values))
        steps = torch.optim.SGD(self.module.parameters(), lr=self.options["rate"])
        for _ in range(self.options["steps"]):
            x, y = next(self.batches)
            steps.zero_grad()
            torch.nn.functional.cross_entropy(self.module(x), y).backward()
            steps.step()
        trained = [one.detach().numpy().copy() for one in self.module.parameters()]
        self.cpu += time.process_time() - begin
        return trained, self.samples, {}


def make_trainer(kind, number, options):
    if KINDS[kind] is not None:
        return Trainer(number, options)
    import flwr.client

    class FlowerTrainer(Trainer, flwr.client.NumPyClient):
        pass

    return FlowerTrainer(number, options)


def client(kind, number, options, home):
    torch.set_num_threads(1)
    trainer = make_trainer(kind, number, options)
    trainer.fit(trainer.get_parameters({}), {})  # warm up
    trainer.cpu, ready, begin = 0.0, time.process_time(), time.monotonic()
    if KINDS[kind] is None:
        import flwr.client
        flwr.client.start_client(server_address=f"{ADDRESS}:{PORT}", client=trainer.to_client(),
                                 root_certificates=pathlib.Path(home, "ca.pem").read_bytes())
    else:
        token = pathlib.Path(home, f"token{number}").read_text()
        with fed.Client(f"https://{ADDRESS}:{PORT}", home + "/coordinator/ca.pem", f"{home}/device{number}", token) as ours:
            ours.run(fed.flower.trainer(trainer))
    cpu = time.process_time() - ready
    print("result", json.dumps({"training": trainer.cpu, "outside": cpu - trainer.cpu, "begin": begin, "end": time.monotonic(),
                                "memory": peak_memory(os.getpid())}))


def score(arrays):
    module = lenet.lenet()
    with torch.no_grad():
        for one, values in zip(module.parameters(), arrays):
            one.copy_(torch.from_numpy(values.copy()))
    return lenet.accuracy(module, *lenet.mnist("t10k"))


def peak_memory(pid):
    """Return a process's largest resident memory in MB."""
    return int(re.search(r"VmHWM:\s*(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) / 1024


def flower_server(options, home):
    import flwr.server
    from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
    newest = [one.detach().numpy() for one in lenet.lenet().parameters()]

    class Average(flwr.server.strategy.FedAvg):
        def aggregate_fit(self, server_round, results, failures):
            nonlocal newest
            done = super().aggregate_fit(server_round, results, failures)
            newest = parameters_to_ndarrays(done[0])
            return done

    certificates = tuple(pathlib.Path(home, name).read_bytes() for name in ("ca.pem", "server.pem", "server.key"))
    count = options["clients"]
    strategy = Average(fraction_evaluate=0.0, min_fit_clients=count, min_available_clients=count, min_evaluate_clients=0,
                       initial_parameters=ndarrays_to_parameters(newest))
    ready = time.process_time()
    print("ready", flush=True)
    flwr.server.start_server(server_address=f"{ADDRESS}:{PORT}", strategy=strategy, certificates=certificates,
                             config=flwr.server.ServerConfig(num_rounds=options["rounds"]))
    return {"server": time.process_time() - ready, "server_memory": peak_memory(os.getpid()), "accuracy": score(newest)}


def fed_server(kind, options, home):
    first = [one.detach().numpy() for one in lenet.lenet().parameters()]
    fed.flower.save(first, home + "/first.safetensors")
    coordinator = fed.Coordinator(home + "/coordinator", hosts=[ADDRESS], bind=ADDRESS, front_port=PORT).start()
    up, down = KINDS[kind]
    coordinator.submit({"model": fed.flower.layout(first), "initial": home + "/first.safetensors", "rounds": options["rounds"],
                        "cohort": options["clients"], "minimum": options["clients"], "codec_up": up, "codec_down": down})
    for number, token in enumerate(coordinator.tokens(options["clients"])):
        pathlib.Path(home, f"token{number}").write_text(token)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    print("ready", flush=True)
    sys.stdin.readline()  # wait until the clients have ended
    pid = coordinator._process.pid
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    memory = peak_memory(pid) + sum(peak_memory(child) for child in children)
    newest = list(coordinator.model().values())
    coordinator.stop()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"server": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, "server_memory": memory,
            "accuracy": score(newest)}


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def make_spaces():
    for name in SPACES:
        ip("netns", "add", name)
        ip("-n", name, "link", "set", "lo", "up")
    ip("link", "add", "up0", "netns", SPACES[1], "type", "veth", "peer", "name", "down0", "netns", SPACES[0])
    for name, device, address in ((SPACES[0], "down0", ADDRESS), (SPACES[1], "up0", "10.79.0.2")):
        ip("-n", name, "address", "add", address + "/24", "dev", device)
        ip("-n", name, "link", "set", device, "up")


def remove_spaces():
    for name in SPACES:
        subprocess.run(["ip", "netns", "delete", name], check=False, stderr=subprocess.DEVNULL)


def line_bytes():
    """Return the bytes on the clients' line: sent, received."""
    folder = "/sys/class/net/up0/statistics/"
    said = subprocess.run(["ip", "netns", "exec", SPACES[1], "cat", folder + "tx_bytes", folder + "rx_bytes"], stdout=subprocess.PIPE,
                          text=True, check=True)
    return [int(word) for word in said.stdout.split()]


def make_certificates(home):
    """Make a CA and a server certificate for Flower."""
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    subprocess.run([*make, "-subj", "/CN=bench", "-keyout", home + "/ca.key", "-out", home + "/ca.pem"], check=True, stderr=subprocess.DEVNULL)
    subprocess.run([*make, "-subj", "/CN=server", "-addext", f"subjectAltName=IP:{ADDRESS}", "-addext", "basicConstraints=CA:FALSE",
                    "-CA", home + "/ca.pem", "-CAkey", home + "/ca.key", "-keyout", home + "/server.key", "-out", home + "/server.pem"],
                   check=True, stderr=subprocess.DEVNULL)


def start(space, *words):
    return subprocess.Popen(["ip", "netns", "exec", space, sys.executable, "-W", "ignore", __file__, *words], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True, env=dict(os.environ, FLWR_TELEMETRY_ENABLED="0", OMP_NUM_THREADS="1"))


def result(process):
    said = process.communicate(timeout=900)[0]
    lines = [line for line in said.splitlines() if line.startswith("result ")]
    if process.returncode != 0 or not lines:
        sys.exit(f"a process failed with {process.returncode}: {said[-2000:]}")
    return json.loads(lines[-1][7:])


def measure(kind, options):
    with tempfile.TemporaryDirectory() as home:
        make_certificates(home)
        before = line_bytes()
        server = start(SPACES[0], "server", kind, json.dumps(options), home)
        while "ready" not in server.stdout.readline():
            if server.poll() is not None:
                sys.exit("the server ended")
        clients = [start(SPACES[1], "client", kind, str(number), json.dumps(options), home) for number in range(options["clients"])]
        for one in clients:
            one.wait(timeout=900)
        up, down = (after - one for after, one in zip(line_bytes(), before))
        row = result(server)
        told = [result(one) for one in clients]
    row["seconds"] = max(one["end"] for one in told) - max(one["begin"] for one in told)
    for key in ("training", "outside"):
        row[key] = sum(one[key] for one in told)
    each = options["clients"] * options["rounds"]
    return {**row, "kind": kind, "memory": max(one["memory"] for one in told), "up": up / each, "down": down / each}


def main():
    if sys.argv[1:2] == ["client"]:
        return client(sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4]), sys.argv[5])
    if sys.argv[1:2] == ["server"]:
        kind, options, home = sys.argv[2], json.loads(sys.argv[3]), sys.argv[4]
        done = flower_server(options, home) if KINDS[kind] is None else fed_server(kind, options, home)
        return print("result", json.dumps(done))
    options = {**OPTIONS, **{key: type(OPTIONS[key])(value) for key, value in (word.split("=") for word in sys.argv[1:])}}
    remove_spaces()
    try:
        make_spaces()
        print("| | bytes up | bytes down | CPU outside training: clients, s | server, s | CPU of training, s | wall, s | memory of a client, MB "
              "| of the server, MB | accuracy |\n|---|---|---|---|---|---|---|---|---|---|")
        for kind in options["kinds"].split(","):
            row = measure(kind, options)
            print(f"| {kind} | {row['up']:,.0f} | {row['down']:,.0f} | {row['outside']:.2f} | {row['server']:.2f} | {row['training']:.1f} "
                  f"| {row['seconds']:.1f} | {row['memory']:.0f} | {row['server_memory']:.0f} | {row['accuracy']:.2%} |", flush=True)
    finally:
        remove_spaces()


if __name__ == "__main__":
    main()
