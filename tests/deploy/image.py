"""The container image: packed twice, inspected, and run by a user who is not root: image.py ROOT BUILD

It checks, in this order:
  bits       packed again in another time zone, under another umask and folder, the archive has the same bytes
  content    digests, sizes, less than 40 MB unpacked, a user by number, nothing set-uid, no path of this machine
  readers    skopeo reads it as an OCI and as a Docker archive; umoci unpacks it
  a run      by bubblewrap, as the image's configuration says, without root, capabilities or a root file system that can be written:
             init, health, a device of this machine enrols and trains over TLS, kill -9 in the middle, again on the same volume
  any user   the image run as a user that its /etc/passwd does not have, as OpenShift does
Without Debian's dpkg it skips; without skopeo, umoci or bubblewrap (deploy/setup.sh --image) it leaves out what needs them, and says so.
"""
# SPDX-License-Identifier: Apache-2.0
import gzip
import hashlib
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import quoted  # noqa: E402: quoted.py makes pictures to train on

SECONDS = 240  # limit of a step in seconds
MOST_BYTES = 40e6
NOBODY = 65534
ROUNDS = 40
STEPS = 10000  # steps of a round: so many that the container is killed before the task ends


def fail(text):
    sys.exit(f"image.py: {text}")


def say(*words, **options):
    run = subprocess.run(words, text=True, capture_output=True, timeout=SECONDS, check=False, **options)
    if run.returncode != 0:
        fail(f"{' '.join(map(str, words))} ends with {run.returncode}:\n{run.stdout}{run.stderr}")
    return run.stdout


def await_that(what, happens):
    end = time.monotonic() + SECONDS
    while not happens():
        if time.monotonic() > end:
            fail(f"after {SECONDS} s still: {what}")
        time.sleep(0.1)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Image:
    """An image's archive, read by Python alone."""

    def __init__(self, path):
        with tarfile.open(path) as archive:
            self.files = {m.name: archive.extractfile(m).read() for m in archive if m.isfile()}
        self.index = json.loads(self.files["index.json"])["manifests"][0]
        self.manifest = json.loads(self.blob(self.index))
        self.config = json.loads(self.blob(self.manifest["config"]))
        self.layers = [gzip.decompress(self.blob(layer)) for layer in self.manifest["layers"]]

    def blob(self, pointer):
        content = self.files[f"blobs/{pointer['digest'].replace(':', '/')}"]
        if len(content) != pointer["size"] or hashlib.sha256(content).hexdigest() != pointer["digest"].split(":")[1]:
            fail(f"a blob in the archive does not have the size and digest of its descriptor: {pointer}")
        return content


def pack(root, build, work, name, spec, **environment):
    """Strip the programs and pack them, as deploy/image.sh does."""
    stage, out = os.path.join(work, name, "stage"), os.path.join(work, name, "image.tar")
    os.makedirs(stage)
    with open(spec, encoding="utf-8") as file:
        programs = json.load(file)["programs"]
    for program in programs:
        say("strip", "-o", os.path.join(stage, program), os.path.join(build, "bin", program))
    say(sys.executable, "-B", os.path.join(root, "deploy/oci/image.py"), spec, build, stage, out, env={**os.environ, **environment},
        umask=int(environment.get("MASK", "022"), 8))
    return out


def check_bits(root, build, work, spec):
    first = pack(root, build, work, "first", spec, TZ="UTC", LC_ALL="C")
    second = pack(root, build, work, "another one", spec, TZ="Asia/Tokyo", LC_ALL="C.UTF-8", MASK="077")
    with open(first, "rb") as a, open(second, "rb") as b:
        if a.read() != b.read():
            fail(f"packed twice, {os.path.basename(spec)} has different bytes")
    print(f"bits: {os.path.basename(spec)} packed twice is the same")
    return first


def check_content(image, here):
    whole = sum(map(len, image.layers))
    if whole >= MOST_BYTES:
        fail(f"the unpacked image has {whole / 1e6:.1f} MB, not less than {MOST_BYTES / 1e6:.0f}")
    diffs = [f"sha256:{hashlib.sha256(tar).hexdigest()}" for tar in image.layers]
    if image.config["rootfs"]["diff_ids"] != diffs:
        fail("the configuration's diff_ids are not the digests of the layers")
    if not image.config["config"]["User"].isdigit() or image.config["config"]["User"] == "0":
        fail(f"the image's user is {image.config['config']['User']}, not a number above 0")
    paths = set()
    for tar in image.layers:
        with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
            for entry in archive:
                paths.add(entry.name)
                if entry.mode & 0o6000:
                    fail(f"{entry.name} is set-uid or set-gid")
                if entry.isfile() and entry.name.startswith("usr/bin/") and here.encode() in archive.extractfile(entry).read():
                    fail(f"{entry.name} names {here}")
    for program in image.config["config"]["Entrypoint"]:
        if program.lstrip("/") not in paths:
            fail(f"the image's entrypoint is {program}, and it has no such file")
    print(f"content: {len(paths)} paths, {whole / 1e6:.1f} MB unpacked")


def check_readers(image, archive, work):
    """Check that other tools read the image as it was packed."""
    if shutil.which("skopeo"):
        read = json.loads(say("skopeo", "inspect", "--no-tags", f"oci-archive:{archive}"))
        if read["Digest"] != image.index["digest"] or read["Labels"] != image.config["config"]["Labels"]:
            fail(f"skopeo reads another image: {read}")
        say("skopeo", "copy", "-q", f"docker-archive:{archive}", f"dir:{work}/docker")
        print("readers: skopeo reads it as OCI's and as Docker's")
    else:
        print("left out: skopeo is not installed")
    if shutil.which("umoci"):
        layout = os.path.join(work, "layout")
        with tarfile.open(archive) as packed:
            packed.extractall(layout)
        tag = image.index["annotations"]["org.opencontainers.image.ref.name"]
        say("umoci", "unpack", "--rootless", "--image", f"{layout}:{tag}", f"{work}/bundle")
        if subprocess.run(["diff", "-r", "--no-dereference", f"{work}/bundle/rootfs", f"{work}/root"]).returncode != 0:
            fail("umoci unpacks another root than there is in the layers")
        print("readers: umoci unpacks it")
    else:
        print("left out: umoci is not installed")


def unpack(image, root):
    """Unpack the layers one over the other. None of them removes files of a layer below."""
    for tar in image.layers:
        with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
            archive.extractall(root)
    give_away(root)


def as_nobody(work):
    """Return the words before a command that make root run it as nobody, as the image must not need root."""
    if os.getuid() != 0:
        return []
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "env", f"HOME={work}"]


def give_away(folder):
    for at, folders, files in os.walk(folder) if os.getuid() == 0 else []:
        for path in [at] + [os.path.join(at, name) for name in folders + files]:
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


class Container:
    """A volume, and processes of the image that use it. bubblewrap runs them as the image's configuration says."""

    def __init__(self, image, root, work, name, user):
        self.config, self.root, self.work, self.user = image.config["config"], root, work, user
        self.volume = os.path.join(work, name)
        os.mkdir(self.volume)
        give_away(self.volume)
        self.process = self.pid = None

    def words(self, *command):
        place = next(iter(self.config["Volumes"]))
        variables = [w for pair in self.config["Env"] for w in ["--setenv", *pair.split("=", 1)]]
        return [*as_nobody(self.work), "bwrap", "--unshare-user", "--uid", str(self.user), "--gid", "0", "--unshare-pid", "--unshare-ipc",
                "--unshare-uts", "--as-pid-1", "--cap-drop", "ALL", "--ro-bind", self.root, "/", "--proc", "/proc", "--dev", "/dev",
                "--bind", self.volume, place, "--chdir", self.config["WorkingDir"], "--clearenv", *variables, "--die-with-parent", "--",
                *self.config["Entrypoint"], *command]

    def say(self, command, *rest):
        return say(*self.words(command, "--dir", "/var/lib/fed", *rest))

    def healthy(self):
        health = self.config["Healthcheck"]["Test"]
        if health[:2] != ["CMD", *self.config["Entrypoint"]]:
            fail(f"the image's health check does not run the image's program: {health}")
        return subprocess.run(self.words(*health[2:]), capture_output=True, timeout=SECONDS).returncode == 0

    def start(self, *options):
        read, write = os.pipe()
        words = self.words(*self.config["Cmd"], *options)
        at = words.index("bwrap") + 1
        log = open(os.path.join(self.work, "container.log"), "ab")
        self.process = subprocess.Popen([*words[:at], "--info-fd", str(write), *words[at:]], pass_fds=[write], stdout=log, stderr=log)
        os.close(write)
        with os.fdopen(read) as file:
            self.pid = json.load(file)["child-pid"]
        await_that("the container is not healthy", self.healthy)

    def stop(self, how):
        os.kill(self.pid, how)
        return self.process.wait(SECONDS)

    def privileges(self):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as file:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        return int(status["CapEff"], 16), int(status["CapBnd"], 16), status["NoNewPrivs"], int(status["Uid"].split()[0])


def check_run(image, root, build, work):
    container = Container(image, root, work, "volume", int(image.config["config"]["User"]))
    if container.healthy():
        fail("the health check succeeds on an empty volume")
    for words in ("is ready", "left as it is"):
        if words not in container.say("init", "--keep", "--host", "localhost", "--host", "127.0.0.1"):
            fail(f"init --keep does not say that a coordinator {words}")
    ports = ["--front-port", str(free_port()), "--devices-port", str(free_port())]
    container.start(*ports)
    effective, bound, no_new, user = container.privileges()
    if effective or bound or no_new != "1" or user == 0:
        fail(f"the container runs with privileges: {container.privileges()}")
    with open(os.path.join(container.volume, "task.json"), "w", encoding="ascii") as file:
        json.dump({"model": "lr", "rounds": ROUNDS, "cohort": 1, "batch": 4, "local_steps": STEPS}, file)
    os.chmod(os.path.join(container.volume, "task.json"), 0o644)
    container.say("task", "/var/lib/fed/task.json")
    with open(os.path.join(work, "token"), "w", encoding="ascii") as file:
        file.write(container.say("token"))
    train(container, build, work, ports)
    if container.stop(signal.SIGTERM) != 0:
        fail("the container does not end with status 0 on SIGTERM")
    if container.healthy():
        fail("the health check succeeds after the container has ended")
    print(f"a run: a device enrolled and trained {ROUNDS} rounds; killed in the middle, it went on")


def train(container, build, work, ports):
    """Let a device train. The container is killed after two rounds, and must go on from there when it is started again."""
    data = os.path.join(work, "data")
    os.mkdir(data)
    quoted.make_pictures(data)
    with open(os.path.join(work, "device.log"), "wb") as log:
        device = subprocess.Popen(
            [os.path.join(build, "bin/fedclientd"), "--server", f"https://127.0.0.1:{ports[1]}", "--ca", f"{container.volume}/ca.pem",
             "--state", f"{work}/device", "--token-file", f"{work}/token", "--data", data, "--until-finished"], stdout=log, stderr=log)
    try:
        task = lambda: json.loads(container.say("tasks", "--json"))[0]  # noqa: E731
        await_that("no two rounds are committed", lambda: task()["version"] >= 2)
        container.stop(signal.SIGKILL)
        before = task()["version"]
        container.start(*ports)
        if device.wait(SECONDS) != 0 or task()["state"] != "finished" or not 2 <= before < task()["version"] == ROUNDS:
            fail(f"killed at version {before}, the device ends with {device.returncode}, the task with {task()}")
    finally:
        device.kill()
        device.wait()


def check_any_user(image, root, work):
    container = Container(image, root, work, "another volume", 1000650000)
    container.say("init", "--keep", "--host", "127.0.0.1")
    container.start("--front-port", "0", "--devices-port", "0")
    container.stop(signal.SIGTERM)
    print("any user: it serves as a user that it does not know")


def main(root, build):
    if not shutil.which("dpkg-query"):
        print("skipped: this is not a Debian system")
        return 77
    with tempfile.TemporaryDirectory() as work:
        os.chmod(work, 0o755)
        check_content(Image(check_bits(root, build, f"{work}/device image", f"{root}/deploy/oci/device.json")), root)
        archive = check_bits(root, build, work, f"{root}/deploy/oci/coordinator.json")
        image = Image(archive)
        check_content(image, root)
        unpacked = os.path.join(work, "root")
        unpack(image, unpacked)
        check_readers(image, archive, work)
        if not shutil.which("bwrap"):
            print("left out, the run: bubblewrap is not installed; deploy/setup.sh --image installs it")
            return 0
        try:
            check_run(image, unpacked, build, work)
            check_any_user(image, unpacked, work)
        except SystemExit:
            for name in ("container.log", "device.log"):
                if os.path.exists(f"{work}/{name}"):
                    print(open(f"{work}/{name}", encoding="utf-8").read()[-2000:])
            raise
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
