#!/usr/bin/env python3
"""Run mixed flows through software NICs over a line that loses, doubles, reorders, cuts and damages frames.

    nic_soak.py [--gb N] [--minutes N] [--build DIR] [--data DIR] [--nice N] [--seed N] [-- BAD_LINE'S OPTIONS...]

Four hosts in network namespaces, each behind fednic; hosts 1 and 2 at one switch, 3 and 4 at another, and bad_line joins the
two. Side by side run until N GB have arrived (10) or the minutes are over (15):

    https      curl gets and puts files, by IPv4 and IPv6          SHA-256 of each
    ssh        scp, both ways                                      SHA-256 of each
    floats     a marked connection                                 each value rounded as the codec does it
    training   fedworker on all hosts, --nic packet                digest of the same training in one process, --nic inline
    iperf3     TCP and UDP, also marked by --tos 0x28              ends in time: its own bytes are no floats

At the end it checks the NICs: alive, memory and descriptors as after half of the bytes, each frame from the host or the line
handed on or counted as lost. It prints a table, and what is wrong; exit status 1 if anything is. It needs root, ip,
/dev/net/tun, curl, openssl, ssh and iperf3, and removes what it made.
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import array
import collections
import ctypes
import hashlib
import http.server
import json
import os
import random
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

import datacenter
import nic

MB = 1_000_000
PIECE = 1 << 20
LIMIT = 180  # limit of a transfer in seconds
HTTPS, SSH, FLOATS, WORKER_GROUP, IPERF, IPERF_MARKED = 8443, 2222, 7300, 7000, 5201, 5202
BAD = ("--packets --drop 0.002 --duplicate 0.002 --reorder 0.005 --delay 0.001 --flip 0.0002 --truncate 0.0002 --pad 0.001 "
       "--cut 0.02 --least 100 --bleach 0.01 --congest 0.01").split()


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Files(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, size):
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.end_headers()

    def do_GET(self):
        with open(self.server.path, "rb") as file:
            self.answer(os.fstat(file.fileno()).st_size)
            shutil.copyfileobj(file, self.wfile, PIECE)

    def do_PUT(self):
        digest, left = hashlib.sha256(), int(self.headers["Content-Length"])
        while left > 0 and (got := self.rfile.read(min(left, PIECE))):
            digest.update(got)
            left -= len(got)
        self.answer(64)
        self.wfile.write(digest.hexdigest().encode())

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
    daemon_threads = True

    def handle_error(self, *_):  # a stopped client is no error
        pass


def serve(path, certificate):
    server = Server(("::", HTTPS), Files)
    server.path = path
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


def give(address, path, count):
    with open(path, "rb") as file:
        data = memoryview(file.read())
    with socket.socket() as stream:
        stream.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, nic.MARK)
        stream.settimeout(LIMIT)
        stream.connect((address, FLOATS))
        for at in range(0, int(count), PIECE):
            at %= len(data)
            stream.sendall(data[at:at + PIECE])


def fill(stream, buffer):
    """Fill the buffer from the stream; return the bytes read, which are fewer only at the stream's end."""
    count, view = 0, memoryview(buffer)
    while count < len(buffer) and (got := stream.recv_into(view[count:])):
        count += got
    return bytes(view[:count])


def take(path, rounded_path):
    """Receive floats; print how many came, how many were rounded, and how many are wrong: neither rounded nor raw nor mixed bytes of both."""
    with open(path, "rb") as file, open(rounded_path, "rb") as rounded_file:
        raw, rounded = file.read(), rounded_file.read()
    size, tally, at = len(raw), collections.Counter(), 0
    raw, rounded = raw + raw[:PIECE], rounded + rounded[:PIECE]
    buffer = bytearray(PIECE)
    with socket.create_server(("", FLOATS)) as server:
        server.settimeout(LIMIT)
        print("ready", flush=True)
        stream, _ = server.accept()
        stream.settimeout(LIMIT)
        while got := fill(stream, buffer):
            begin = at % size
            want, was = rounded[begin:begin + len(got)], raw[begin:begin + len(got)]
            if got == want:
                tally["rounded"] += len(got) // 4
            else:
                for k in range(0, len(got), 4):
                    a, b, c = got[k:k + 4], want[k:k + 4], was[k:k + 4]
                    tally["rounded" if a == b else "raw" if a == c else
                          "mixed" if all(x in pair for x, *pair in zip(a, b, c)) else "wrong"] += 1
            at += len(got)
    print(json.dumps(dict(tally, bytes=at)))


class Hosts(nic.NICs):
    def __init__(self, options):
        super().__init__(4)
        self.options = options
        self.files = self.folder.name

    def __enter__(self):
        super().__enter__()
        try:
            self.split()
        except BaseException:
            self.__exit__()
            raise
        return self

    def split(self):
        """Make two switches, with the bad line between them."""
        at = self.switch
        self.inside(at, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")
        self.inside(at, "ip", "link", "add", "br1", "type", "bridge")
        self.inside(at, "ip", "link", "set", "br1", "up")
        for rank in (2, 3):
            self.inside(at, "ip", "link", "set", f"p{rank}", "master", "br1")
        for k in range(2):
            self.inside(at, "ip", "link", "add", f"x{k}", "type", "veth", "peer", "name", f"y{k}")
            self.inside(at, "ip", "link", "set", f"x{k}", "master", f"br{k}", "up")
            self.inside(at, "ip", "link", "set", f"y{k}", "mtu", "1600", "up")
        for rank in range(4):
            self.inside(self.names[rank], "ip", "addr", "add", self.six(rank) + "/64", "dev", "nic0", "nodad")
        program = os.path.join(self.options.build, "tests", "bad_line")
        self.bad = subprocess.Popen(["nice", "-n", str(datacenter.NICE), "ip", "netns", "exec", at, program, *self.options.bad, "y0",
                                     "y1"], stdout=subprocess.PIPE, text=True)
        self.children.append(self.bad)

    def six(self, rank):
        return f"fd77::{rank + 1}"

    def background(self, rank, *words):
        child = subprocess.Popen([*self.prefix(rank), *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.children.append(child)

    def call(self, rank, *words):
        """Run a command in a host, and return its output. If it fails or hangs, raise an exception that says so."""
        return must([*self.prefix(rank), *words])

    def me(self, *words):
        return [sys.executable, os.path.abspath(__file__), *words]


def must(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LIMIT)
    if done.returncode != 0:
        raise RuntimeError(f"{command[6:]} ended with {done.returncode}: {(done.stderr or done.stdout)[-300:]}")
    return done.stdout


def equal(what, got, wanted):
    if got != wanted:
        raise RuntimeError(f"{what}: {got} came, and not {wanted}")


# ---- Flows: turn(k) returns the number of bytes that arrived ----

class Https:
    def __init__(self, hosts):
        self.hosts, self.path = hosts, make_file(hosts, "page", 48 * MB)
        self.digest, self.certificate = sha256(self.path), os.path.join(hosts.files, "certificate")
        names = ",".join(f"IP:{a}" for a in (hosts.address(0), hosts.six(0)))
        must("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=soak -addext".split() +
             ["subjectAltName=" + names, "-keyout", self.certificate, "-out", self.certificate + ".crt"])
        with open(self.certificate, "a", encoding="ascii") as both, open(self.certificate + ".crt", encoding="ascii") as one:
            both.write(one.read())
        hosts.background(0, *hosts.me("serve", self.path, self.certificate))

    def turn(self, k):
        hosts, out = self.hosts, os.path.join(self.hosts.files, "got")
        address = [hosts.address(0), f"[{hosts.six(0)}]"][k % 2]
        put = ["-T", self.path] if k // 2 % 2 else []
        hosts.call(2, "curl", "-sSfg", "--max-time", str(LIMIT), "--cacert", self.certificate + ".crt", "-o", out, *put,
                   f"https://{address}:{HTTPS}/page")
        if put:
            with open(out, encoding="ascii") as file:
                equal("https", file.read(), self.digest)
        else:
            equal("https", sha256(out), self.digest)
        return os.path.getsize(self.path)


class Ssh:
    def __init__(self, hosts):
        self.hosts, self.path = hosts, make_file(hosts, "scp", 32 * MB)
        self.digest, at = sha256(self.path), hosts.files
        for name in ("host", "user"):
            must(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", os.path.join(at, name)])
        with open(os.path.join(at, "host.pub"), encoding="ascii") as file:
            key = " ".join(file.read().split()[:2])
        write(at, "known", f"[{hosts.address(1)}]:{SSH} {key}\n")
        config = write(at, "sshd", f"Port {SSH}\nHostKey {at}/host\nAuthorizedKeysFile {at}/user.pub\nStrictModes no\nUsePAM no\n"
                                   "PidFile none\nPermitRootLogin yes\nPasswordAuthentication no\nSubsystem sftp internal-sftp\n")
        # sshd needs a /run of its own
        hosts.background(1, "sh", "-c", f"mount -t tmpfs none /run && mkdir /run/sshd && exec /usr/sbin/sshd -D -f {config}")

    def turn(self, k):
        at, there = self.hosts.files, os.path.join(self.hosts.files, f"copy{k % 2}")
        far = f"root@{self.hosts.address(1)}:"
        names = [self.path, far + there] if k % 2 else [far + self.path, there]
        self.hosts.call(3, "scp", "-q", "-i", f"{at}/user", "-P", str(SSH), "-o", f"UserKnownHostsFile={at}/known", "-o",
                        "BatchMode=yes", *names)
        equal("ssh", sha256(there), self.digest)
        return os.path.getsize(self.path)


class Floats:
    COUNT = 96 << 20

    def __init__(self, hosts):
        self.hosts, self.tally = hosts, collections.Counter()
        random.seed(hosts.options.seed)
        values = array.array("f", (random.gauss(0, 0.02) for _ in range(1 << 20)))
        self.path = write(hosts.files, "floats", values.tobytes())
        library = ctypes.CDLL(os.path.join(hosts.options.build, "codecs", "libfedcodecs.so"))
        address, count = values.buffer_info()
        library.fedcodec_bursts_round(int(nic.BOUND), ctypes.c_void_p(address), ctypes.c_void_p(address), ctypes.c_size_t(count))
        self.rounded = write(hosts.files, "rounded", values.tobytes())

    def turn(self, k):
        to, come_from = ((0, 3), (2, 1))[k % 2]
        taker = self.hosts.start(to, self.hosts.me("take", self.path, self.rounded))
        try:
            equal("floats", taker.stdout.readline().strip(), "ready")
            self.hosts.call(come_from, *self.hosts.me("give", self.hosts.address(to), self.path, str(self.COUNT)))
            got = json.loads(taker.communicate(timeout=LIMIT)[0])
        finally:
            taker.kill()
        equal("floats", got.pop("bytes"), self.COUNT)
        self.tally.update(got)
        equal("floats that are wrong", got.get("wrong", 0), 0)
        return self.COUNT


class Training:
    STEPS = "60"

    def __init__(self, hosts):
        self.hosts, self.program = hosts, os.path.join(hosts.options.build, "bin", "fedworker")
        self.words = ["train", "--model", "lenet5-caffe", "--data", hosts.options.data, "--workers", "4", "--batch", "16", "--steps",
                      self.STEPS, "--optimizer", "momentum:lr=0.02", "--sync", "bitsgd"]
        self.digests = {collective: self.inline(collective) for collective in ("ring", "owners")}
        self.cut_off = 0

    def inline(self, collective):
        path = os.path.join(self.hosts.files, "inline.json")
        must([self.program, *self.words, "--link", "threads", "--collective", collective, "--nic", "inline:e=" + nic.BOUND, "--summary",
              path])
        return read_json(path)["digest"]

    def turn(self, k):
        hosts, collective, wrong = self.hosts, ("ring", "owners")[k % 2], []
        secret, path = (os.path.join(hosts.files, f"{name}{k}") for name in ("secret", "summary"))

        def work(rank):
            meet = ["--join" if rank else "--listen", f"{hosts.address(0)}:{WORKER_GROUP}", "--secret-file", secret, "--here", "1"]
            try:
                hosts.call(rank, self.program, *self.words, "--link", "tcp", "--collective", collective, *meet, "--nic",
                           "packet:e=" + nic.BOUND, *(["--summary", path] if rank == 0 else []))
            except Exception as what:
                wrong.append(str(what))

        threads = [threading.Thread(target=work, args=(rank,)) for rank in range(4)]
        for rank, thread in enumerate(threads):
            thread.start()
            end = time.monotonic() + 10
            while rank == 0 and time.monotonic() < end and not (os.path.exists(secret) and os.path.getsize(secret)):
                time.sleep(0.05)
        for thread in threads:
            thread.join()
        # A heartbeat may be lost by chance.
        if wrong and "no beat for" in str(wrong):
            self.cut_off += 1
            return 0
        if wrong:
            raise RuntimeError("; ".join(wrong))
        results = read_json(path)
        equal(f"{collective}'s digest", results["digest"], self.digests[collective])
        return sum(results["sent_bytes"])


class Iperf:
    def __init__(self, hosts, port, words):
        self.hosts, self.port, self.words = hosts, str(port), words
        hosts.background(3, "iperf3", "-s", "-p", self.port)

    def turn(self, k):
        kinds = (["-n", "100M"], ["-n", "100M", "-R", "-P", "3"], ["-6", "-n", "100M"], ["-u", "-b", "100M", "-t", "4"])
        kind = kinds[k % len(kinds)]
        to = self.hosts.six(3) if "-6" in kind else self.hosts.address(3)
        # iperf3's server may refuse a client while it opens its port again.
        for again in (True, True, False):
            got = json.loads(self.hosts.call(1, "iperf3", "-J", "-c", to, "-p", self.port, *kind, *self.words))
            if not again or not re.search("refused|busy", got.get("error", "")):
                break
            time.sleep(1)
        if "error" in got:
            raise RuntimeError(f"iperf3 {kind}: {got['error']}")
        return got["end"]["sum" if "-u" in kind else "sum_received"]["bytes"]


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def write(folder, name, data):
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())
    return path


def make_file(hosts, name, size):
    return write(hosts.files, name, random.Random(name).randbytes(size))


def nic_state(hosts):
    """Return each NIC's VmData and VmRSS in KiB and open descriptors. VmRSS may grow when the first large frames fill buffers."""
    state = []
    for one in hosts.nics:
        with open(f"/proc/{one.pid}/status", encoding="ascii") as file:
            memory = dict(re.findall(r"(\w+):\s*(\d+) kB", file.read()))
        state.append((int(memory["VmData"]), int(memory["VmRSS"]), len(os.listdir(f"/proc/{one.pid}/fd"))))
    return state


def metrics(hosts, rank):
    text = must([hosts.program, "--stats", "--prometheus", "--tun", "nic0", "--control", os.path.join(hosts.files, f"{rank}.sock")])
    found = collections.Counter()
    for name, labels, value in re.findall(r"^fednic_(\w+?)(?:_total)?\{([^}]*)\} (\d+)", text, re.MULTILINE):
        label = re.search(r'(?:side|by)="(\w+)"', labels)
        found[f"{name} {label.group(1)}" if label else name] += int(value)
    return found


def device(hosts, rank, name):
    text = subprocess.run(["ip", "-n", hosts.names[rank], "-s", "-j", "link", "show", name], capture_output=True, check=True).stdout
    return json.loads(text)[0]["stats64"]


def check_frames(hosts, rank):
    """Return what is wrong, if a frame that came in was neither sent on nor counted as lost."""
    one, tap, wire = metrics(hosts, rank), device(hosts, rank, "nic0"), device(hosts, rank, "eth0")
    wrong = []
    if abs(one["frames received"] - one["lost_frames host"] - tap["rx"]["packets"]) > 16:
        wrong.append(f"host {rank + 1}: {one['frames received']} frames came from the line, {tap['rx']['packets']} reached the host")
    if abs(one["frames sent"] - tap["tx"]["packets"]) > 16:
        wrong.append(f"host {rank + 1}: it sent {tap['tx']['packets']} frames, and the NIC saw {one['frames sent']}")
    if wire["tx"]["packets"] + one["lost_frames line"] + 16 < one["frames sent"]:
        wrong.append(f"host {rank + 1}: {one['frames sent']} frames were sent, and the line took {wire['tx']['packets']}")
    return one, wrong


class Soak:
    def __init__(self, hosts, options):
        self.hosts, self.options = hosts, options
        self.count, self.bytes, self.wrong = collections.Counter(), collections.Counter(), []
        self.over, self.lock = threading.Event(), threading.Lock()

    def repeat(self, name, flow):
        k = 0
        while not self.over.is_set():
            try:
                got = flow.turn(k)
                with self.lock:
                    self.bytes[name] += got
                    self.count[name] += 1
            except Exception as what:
                self.wrong.append(f"{name}, turn {k}: {what}")
                self.over.wait(1)
                if len(self.wrong) > 20:
                    self.over.set()
            k += 1

    def run(self):
        hosts, goal = self.hosts, self.options.gb * 1e9
        flows = {"https": Https(hosts), "ssh": Ssh(hosts), "floats": Floats(hosts), "training": Training(hosts),
                 "iperf3": Iperf(hosts, IPERF, []), "iperf3, marked": Iperf(hosts, IPERF_MARKED, ["--tos", "0x28"])}
        time.sleep(2)
        threads = [threading.Thread(target=self.repeat, args=pair) for pair in flows.items()]
        begin, half = time.monotonic(), None
        for thread in threads:
            thread.start()
        while not self.over.wait(1):
            if any(one.poll() is not None for one in hosts.nics) or hosts.bad.poll() is not None:
                self.wrong.append("a NIC or the bad line has ended")
                self.over.set()
            half = half or (nic_state(hosts) if sum(self.bytes.values()) > goal / 2 else None)
            if sum(self.bytes.values()) >= goal or time.monotonic() - begin > 60 * self.options.minutes:
                self.over.set()
        for thread in threads:
            thread.join()
        self.seconds = time.monotonic() - begin
        self.report(flows, half or nic_state(hosts))

    def report(self, flows, half):
        hosts = self.hosts
        print(f"{sum(self.bytes.values()) / 1e9:.2f} GB in {self.seconds:.0f} s, bad_line {' '.join(self.options.bad)}\n")
        print(f"{'flow':16} {'transfers':>10} {'MB':>10}")
        for name in flows:
            print(f"{name:16} {self.count[name]:10} {self.bytes[name] / 1e6:10.0f}")
            if self.count[name] == 0:
                self.wrong.append(f"{name}: no transfer ended")
        print(f"\nfloats: {dict(flows['floats'].tally)}; trainings that the failure detector ended: {flows['training'].cut_off}\n")
        if 4 * flows["training"].cut_off > self.count["training"]:
            self.wrong.append("the judge gave up more than every fourth training")
        time.sleep(1)
        if any(one.poll() is not None for one in hosts.nics):
            self.wrong.append("a NIC has ended")
        else:
            self.report_nics(half, nic_state(hosts))
        hosts.bad.terminate()
        print(hosts.bad.communicate(timeout=10)[0])

    def report_nics(self, half, end):
        print(f"{'NIC':5} {'frames sent':>12} {'received':>10} {'compressed':>11} {'restored':>10} {'bad':>6} {'lost':>6} {'VmData, KiB':>14} "
              f"{'VmRSS':>14} {'files':>8}")
        for rank in range(4):
            one, wrong = check_frames(self.hosts, rank)
            self.wrong += wrong
            lost = sum(value for key, value in one.items() if key.startswith("lost_frames"))
            pairs = "".join(f" {a:6}, {b:6}" for a, b in zip(half[rank][:2], end[rank][:2]))
            print(f"{rank + 1:<5} {one['frames sent']:12} {one['frames received']:10} {one['coded_frames sent']:11} "
                  f"{one['coded_frames received']:10} {one['bad_frames received']:6} {lost:6}{pairs} "
                  f"{half[rank][2]:3}, {end[rank][2]:3}")
            if half[rank][0] != end[rank][0] or half[rank][2] != end[rank][2]:
                self.wrong.append(f"host {rank + 1}'s NIC has grown: {half[rank]}, then {end[rank]}")
        print()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gb", type=float, default=10)
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--data", default=os.environ.get("FED_MNIST_DIR", "build/data/mnist"))
    parser.add_argument("--nice", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("bad", nargs="*")
    options = parser.parse_args()
    options.build, options.data = os.path.abspath(options.build), os.path.abspath(options.data)
    options.bad = [*(options.bad or BAD), "--seed", str(options.seed)]
    datacenter.NICE = options.nice
    nic.NICs.program = os.path.join(options.build, "bin", "fednic")
    with Hosts(options) as hosts:
        soak = Soak(hosts, options)
        soak.run()
    for sentence in soak.wrong:
        print("wrong:", sentence)
    return 1 if soak.wrong else 0


if __name__ == "__main__":
    inner = {"serve": serve, "give": give, "take": take}
    if len(sys.argv) > 1 and sys.argv[1] in inner:
        inner[sys.argv[1]](*sys.argv[2:])
    else:
        sys.exit(main())
