"""Compile the kernels that the cuda.* tests ran, for real cards: nvcc for sm_80 and sm_90, and NVRTC where it is installed.

    gpu_nvcc.py FOLDER [NVCC]      FOLDER has the texts, as tests/support/fake_cuda writes them; NVCC is nvcc by default

It fails if a text does not compile, or if a kernel spills registers, has a stack, or takes more than 64 registers. It skips (77)
without nvcc or without texts. Texts that were right before are not compiled again: FOLDER.right has their hashes.
"""
# SPDX-License-Identifier: Apache-2.0
import concurrent.futures
import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

CARDS = ("80", "90")
MOST_REGISTERS = 64
OPTIONS = ["--fmad=false", "-Xptxas", "-v"]
KERNEL = re.compile(r"Compiling entry function '(\w+)' for 'sm_(\d+)'(.*?)(?=Compiling entry function|\Z)", re.DOTALL)
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


def judge(said):
    """Return findings about the kernels from the output of ptxas, and (name, registers) of each kernel."""
    findings, kernels = [], []
    for name, card, words in KERNEL.findall(said):
        stack = [int(n) for n in STACK.search(words).groups()]
        registers = int(re.search(r"Used (\d+) registers", words).group(1))
        kernels.append((name, registers))
        if any(stack):
            findings.append(f"{name}, sm_{card}: {stack[0]} bytes of stack, {stack[1]} of spill stores, {stack[2]} of spill loads; "
                            "an array that is indexed by data lies in memory")
        if registers > MOST_REGISTERS:
            findings.append(f"{name}, sm_{card}: {registers} registers, the most is {MOST_REGISTERS}")
    return findings, kernels


def compile_text(nvcc, path):
    cards = [f"-gencode=arch=compute_{c},code=sm_{c}" for c in CARDS]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([nvcc, "-fatbin", *OPTIONS, *cards, "-o", os.path.join(folder, "x.fatbin"), path],
                              capture_output=True, text=True, timeout=300)
    said = done.stdout + done.stderr
    if done.returncode != 0:
        return [said.strip()[:600]], []
    return judge(said)


def nvrtc():
    """Load libnvrtc; None: it is not installed."""
    for name in ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            pass
    return None


def compile_by_nvrtc(library, text, card):
    """Compile a text by NVRTC, as cuda_modules.c does. Return what is wrong, or None."""
    options = [o.encode() for o in (f"--gpu-architecture=sm_{card}", "--fmad=false", "-default-device")]
    program = ctypes.c_void_p()
    library.nvrtcCreateProgram(ctypes.byref(program), text, b"kernels.cu", 0, None, None)
    result = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    log = ctypes.create_string_buffer(1 << 20)
    library.nvrtcGetProgramLog(program, log)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return None if result == 0 else f"NVRTC, sm_{card}: {log.value.decode(errors='replace')[:600]}"


def check(nvcc, library, path):
    with open(path, "rb") as file:
        text = file.read()
    findings, kernels = compile_text(nvcc, path)
    for card in CARDS if library else ():
        findings += filter(None, [compile_by_nvrtc(library, text, card)])
    return path, findings, kernels


def main():
    folder = sys.argv[1].rstrip("/")
    nvcc = shutil.which(sys.argv[2] if len(sys.argv) > 2 else "nvcc")
    paths = sorted(os.path.join(folder, n) for n in os.listdir(folder) if n.endswith(".cu")) if os.path.isdir(folder) else []
    if not nvcc or not paths:
        print("skipped:", "no nvcc is installed" if not nvcc else "no cuda.* test has left kernels")
        return 77
    library = nvrtc()
    right = folder + ".right"
    key = hashlib.sha256(subprocess.run([nvcc, "--version"], capture_output=True).stdout + open(__file__, "rb").read() +
                         str(bool(library)).encode()).hexdigest()
    known = set(open(right, encoding="ascii").read().split()) if os.path.exists(right) else set()
    hash_of = {p: hashlib.sha256(key.encode() + open(p, "rb").read()).hexdigest() for p in paths}
    new = [p for p in paths if hash_of[p] not in known]
    failed, most = 0, ("", 0)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, findings, kernels in pool.map(lambda p: check(nvcc, library, p), new):
            for finding in findings:
                print(f"{path}: {finding}")
            failed += bool(findings)
            most = max([most, *kernels], key=lambda k: k[1])
            if not findings:
                known.add(hash_of[path])
    with open(right, "w", encoding="ascii") as file:
        file.write("\n".join(sorted(known & set(hash_of.values()))) + "\n")
    print(f"gpu_nvcc: {len(paths)} texts, {len(new)} of them new, {failed} with findings; most registers: {most[1]} ({most[0]}); "
          f"NVRTC {'too' if library else 'is not installed'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
