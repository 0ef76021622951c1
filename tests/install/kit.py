#!/usr/bin/env python3
"""Install a build into an empty folder, build programs with what is there, and let them train: kit.py ROOT BUILD CC [--shared]

It checks, in this order:
  files      what is installed, and that no file names a folder of this machine
  DESTDIR    the same files, below it
  links      each link of an installed document leads to an installed file, and to a heading that this file has
  symbols    each shared library shows what its public headers declare, and nothing else
  pages      man reads each manual page without a warning
  programs   outside the tree: a CMake project, on shared and on static libraries; a Makefile with pkg-config; C++17
  exchange   each build of the example of libfeddc lets four workers fit the same line
  rounds     a coordinator that is installed, and a device of each of those programs, finish a task over TLS
Without a C++ compiler, without man, or with a build of static libraries alone, it leaves out what needs them, and says so.
"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lint"))
import tree  # noqa: E402: the lint's module, which lists the files of the tree

LIBRARIES = {  # folders and files of a library's public headers
    "common": ["fed"], "codecs": ["fedcodec"], "train": ["fedtrain"], "dc": ["feddc"], "client": ["fedclient"], "server": ["fedserver"],
    "gpu": ["fed/gpu.h"], "codecsgpu": ["fedcodec/gpu_codecs.h"]}  # a single header belongs to this library, not to that of its folder
PROGRAMS = ["fedserver", "fedclientd", "fedworker", "fednic", "fedsim", "fedtrain", "fedcodec"]
NOT_DECLARATIONS = re.compile(r"/\*.*?\*/|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.DOTALL | re.MULTILINE)
SECONDS = 240  # limit of a command in seconds


def fail(text):
    sys.exit(f"kit.py: {text}")


def say(*words, **options):
    """Run a command, which must succeed, and return what it prints."""
    run = subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS, check=False, **options)
    if run.returncode != 0:
        fail(f"{' '.join(words)} ends with {run.returncode}:\n{run.stdout}")
    return run.stdout


def paths_below(folder):
    return sorted(os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names)


class Kit:
    def __init__(self, root, build, cc, work):
        self.root, self.build, self.cc, self.work = root, build, cc, work
        self.cxx = shutil.which("c++") or shutil.which("g++")
        self.prefix = os.path.join(work, "prefix")
        self.examples = os.path.join(self.prefix, "share/doc/fed/examples")

    def install(self):
        """Install into a folder, and then move it: no installed file may depend on the first folder."""
        first = os.path.join(self.work, "first")
        say("cmake", "--install", self.build, "--prefix", first)
        unit = open(os.path.join(first, "lib/systemd/system/fedserver.service"), encoding="utf-8").read()
        if f"ExecStart={first}/bin/fedserver run" not in unit:
            fail("the unit does not start the program that is installed with it")
        os.rename(first, self.prefix)
        shutil.rmtree(os.path.join(self.prefix, "lib/systemd"))  # systemd's units have absolute paths

    def check_files(self):
        there = paths_below(self.prefix)
        self.libdir = os.path.join(self.prefix, os.path.dirname(next(p for p in there if p.endswith("libfedcommon.a"))))
        wanted = [f"bin/{name}" for name in PROGRAMS]
        wanted += [os.path.relpath(os.path.join(self.libdir, f"libfed{name}.a"), self.prefix) for name in LIBRARIES]
        wanted += [os.path.relpath(os.path.join(self.libdir, f"pkgconfig/libfed{name}.pc"), self.prefix) for name in LIBRARIES]
        wanted += [f"share/man/man1/{name}.1" for name in PROGRAMS] + ["include/fed/version.h", "share/doc/fed/LICENSE"]
        for path in sorted(set(wanted) - set(there)):
            fail(f"{path} is not installed")
        public = [path for path in tree.files(self.root, (".h", ".h.in", ".def")) if "/include/" in path and not path.startswith("tests/")
                  and "/include/fednic/" not in path]  # fednic's library is not installed
        for name in sorted(path.split("/include/", 1)[1].removesuffix(".in") for path in public):
            if f"include/{name}" not in there:
                fail(f"the public header {name} is not installed")
        for path in there:
            with open(os.path.join(self.prefix, path), "rb") as file:
                data = file.read()
            for place in (self.root, self.work):
                if place.encode() + b"/" in data:
                    fail(f"{path} names a folder of this machine: {place}")
        print(f"files: {len(there)} installed")

    def check_links(self):
        """Follow the links of all installed documents but those into the network."""
        folder, links = os.path.join(self.prefix, "share/doc/fed"), 0
        pages = {path: re.sub(r"^```.*?^```", "", open(os.path.join(folder, path), encoding="utf-8").read(), flags=re.DOTALL | re.MULTILINE)
                 for path in paths_below(folder) if path.endswith(".md")}
        heads = {path: {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in re.findall(r"^#+ (.*)", text, re.MULTILINE)}
                 for path, text in pages.items()}
        for path, text in pages.items():
            for target in re.findall(r"\]\(([^()\s]+)\)", re.sub(r"`[^`\n]*`", "", text)):
                if re.match(r"[a-z]+:", target):
                    continue
                links += 1
                file, _, anchor = target.partition("#")
                to = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
                if not os.path.exists(os.path.join(folder, to)):
                    fail(f"share/doc/fed/{path} links to {target}, which is not installed: see deploy/documents.py")
                if anchor and to in heads and anchor not in heads[to]:
                    fail(f"share/doc/fed/{path} links to {target}, and {to} has no such heading")
        if links < 200:
            fail(f"the installed documents have {links} links only")
        print(f"links: {links} in {len(pages)} documents")

    def check_destdir(self):
        below = os.path.join(self.work, "destdir")
        say("cmake", "--install", self.build, "--prefix", "/usr", env={**os.environ, "DESTDIR": below})
        missing = set(paths_below(self.prefix)) - set(paths_below(os.path.join(below, "usr")))
        if missing or os.listdir(below) != ["usr"]:
            fail(f"with DESTDIR other files are installed: {sorted(missing)}, {os.listdir(below)}")
        unit = open(os.path.join(below, "usr/lib/systemd/system/fedserver-front.service"), encoding="utf-8").read()
        if "ExecStart=/usr/bin/fedserver front" not in unit or below in unit:
            fail("with DESTDIR the unit names the wrong program")

    def headers(self, places):
        """Return the paths of a library's headers: those in its folders, except headers of another library, and single files."""
        others = {place for all_places in LIBRARIES.values() for place in all_places}
        paths = []
        for place in places:
            where = os.path.join(self.prefix, "include", place)
            names = [f"{place}/{name}" for name in sorted(os.listdir(where))] if os.path.isdir(where) else []
            paths += [name for name in names if name not in others] or [place]
        return [os.path.join(self.prefix, "include", path) for path in paths]

    def declared(self, places):
        """Return the names of functions and data that these headers declare."""
        names = set()
        for header in self.headers(places):
            text = NOT_DECLARATIONS.sub("", open(header, encoding="utf-8").read())
            while text != (shorter := re.sub(r"\{[^{}]*\}", " @ ", text)):
                text = shorter
            for statement in re.split(r";|@\s*(?=static\b|const\b|[a-z_]+ [*a-z])", text):
                if "typedef" in statement or re.search(r"\bstatic\b", statement):
                    continue
                names.update(re.findall(r"(?<!\()(?<!\(\*)\b(fed\w*)\s*\((?!\*)", statement))
                names.update(re.findall(r"\bextern\b[^;()]*?\b(fed\w*)\s*(?:\[|$)", statement))
        return names

    def check_symbols(self):
        for name, folders in LIBRARIES.items():
            library = os.path.join(self.libdir, f"libfed{name}.so")
            shown = {line.split()[2] for line in say("nm", "-D", "--defined-only", library).split("\n") if line}
            declared = self.declared(folders)
            if shown != declared:
                fail(f"libfed{name}.so shows, though no public header declares it: {sorted(shown - declared)}; "
                     f"a public header declares, though it does not show: {sorted(declared - shown)}")
            soname = re.search(r"soname: \[(.*?)\]", say("readelf", "-d", library))
            if not soname or not re.fullmatch(rf"libfed{name}\.so\.\d+\.\d+", soname[1]):
                fail(f"libfed{name}.so has no soname with a release")
            print(f"symbols: libfed{name}.so shows {len(shown)}, as declared")

    def check_pages(self):
        if not shutil.which("man"):
            print("pages: man is not installed, so the pages are not checked")
            return
        for name in PROGRAMS:
            page = os.path.join(self.prefix, "share/man/man1", f"{name}.1")
            run = subprocess.run(["man", "--warnings", "-l", page], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                                 env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "120"})
            if run.returncode != 0 or run.stderr or "usage: " not in run.stdout.lower():
                fail(f"{name}.1: man ends with {run.returncode} and says {run.stderr}")

    def outside(self, kind):
        folder = os.path.join(self.work, f"outside-{kind}")
        shutil.copytree(os.path.join(HERE, "outside"), folder)
        return folder

    def build_with_cmake(self, kind):
        """Build a CMake project that finds the package. Return the path of its device."""
        outside = self.outside(f"cmake-{kind}")
        say("cmake", "-S", outside, "-B", f"{outside}/build", f"-DCMAKE_PREFIX_PATH={self.prefix}", f"-Dfed_EXAMPLES={self.examples}",
            f"-DCMAKE_C_COMPILER={self.cc}", f"-Dfed_USE_STATIC_LIBS={kind == 'static'}")
        say("cmake", "--build", f"{outside}/build", "-j2")
        print(f"programs: {kind}, {say(f'{outside}/build/each_library', f'{outside}/coordinator').strip()}")
        self.check_exchange(f"{outside}/build/allreduce")
        return f"{outside}/build/device"

    def build_with_make(self):
        """Build by a Makefile with pkg-config. Return the paths of its devices, in C and in C++."""
        outside = self.outside("make")
        goals = ["device", "allreduce"] + (["device++"] if self.cxx else [])
        if not self.cxx:
            print("programs: no C++ compiler is here, so none is built in C++")
        say("make", "-C", outside, *goals, f"EXAMPLES={self.examples}", f"CC={self.cc}", f"CXX={self.cxx}",
            f"LDFLAGS=-Wl,-rpath,{self.libdir}", env={**os.environ, "PKG_CONFIG_PATH": os.path.join(self.libdir, "pkgconfig")})
        self.check_exchange(f"{outside}/allreduce")
        return [f"{outside}/{goal}" for goal in goals if goal != "allreduce"]

    def check_exchange(self, program):
        """Check that four workers exchange gradients, and all find the same line."""
        said = sorted(say(program, "threads").splitlines())
        if said != [f"rank {rank}: y = 3.000 x + 1.000" for rank in range(4)]:
            fail(f"{program} says {said}")

    def check_rounds(self, devices):
        """Run an installed coordinator, and a device of each program, until the task is finished."""
        fedserver, home = os.path.join(self.prefix, "bin/fedserver"), os.path.join(self.work, "fed")
        task = os.path.join(self.work, "task.json")
        with open(task, "w", encoding="utf-8") as file:
            count = len(devices)
            json.dump({"model": "lr", "rounds": 2, "cohort": count, "goal": count, "minimum": count, "deadline_s": 200, "batch": 1,
                       "codec_up": "float32"}, file)
        say(fedserver, "init", "--dir", home)
        say(fedserver, "task", "--dir", home, task)
        tokens = say(fedserver, "token", "--dir", home, "--count", str(count)).split()
        with open(os.path.join(self.work, "coordinator.log"), "w", encoding="utf-8") as log:
            coordinator = subprocess.Popen([fedserver, "run", "--dir", home, "--front-port", "0", "--devices-port", "0"],
                                           stdout=subprocess.PIPE, stderr=log, text=True)
        children = [coordinator]
        try:
            line = coordinator.stdout.readline()
            server = re.search(r"https://\S+?:\d+", line)
            if not server:
                fail(f"the coordinator says {line!r}, with no address")
            for k, (device, token) in enumerate(zip(devices, tokens)):
                own = os.path.join(self.work, f"device-{k}")
                os.mkdir(own)
                children.append(subprocess.Popen([device, server[0], os.path.join(home, "ca.pem"), token], cwd=own,
                                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
            for device, child in zip(devices, children[1:]):
                said, _ = child.communicate(timeout=SECONDS)
                if child.returncode != 0 or len(re.findall(r"^round ", said, re.MULTILINE)) != 2:
                    fail(f"{device} ends with {child.returncode} and says:\n{said}")
        finally:
            for child in children:
                child.terminate()
                child.wait(timeout=60)
        state = json.loads(say(fedserver, "tasks", "--dir", home, "--json"))
        print(f"rounds: {count} devices, task {state[0]['state']}")
        if state[0]["state"] != "finished":
            fail(f"the task is not finished: {state}")


def main(root, build, cc, *options):
    with tempfile.TemporaryDirectory(prefix="fed-kit-") as work:
        kit = Kit(os.path.realpath(root), build, cc, os.path.realpath(work))
        kit.install()
        kit.check_files()
        kit.check_links()
        kit.check_destdir()
        kit.check_pages()
        devices = {"static": [kit.build_with_cmake("static")]}
        if "--shared" in options:
            kit.check_symbols()
            devices["shared"] = [kit.build_with_cmake("shared"), *kit.build_with_make()]
        else:
            print("programs: this build has static libraries only")
        for kind, paths in devices.items():
            for path in paths:
                if ("libfedclient.so" in say("readelf", "-d", path)) != (kind == "shared"):
                    fail(f"{path} is not linked with the {kind} library")
        kit.check_rounds([path for paths in devices.values() for path in paths])


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
