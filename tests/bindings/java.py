"""Run the tests of the Java binding: java.py ROOT LIBRARY JAR BIN WORK

Makes an AAR, and runs java/*.java beside this file, and the example, on the AAR's content, with JNI's own checks; a complaint of JNI is a
failure. LIBRARY is libfedjni.so, JAR fed.jar, BIN the folder of the programs, WORK a folder to work in. Exit status 77: there
is no Java.
"""
# SPDX-License-Identifier: Apache-2.0
import io
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import zipfile

SECONDS = 280  # limit in seconds
COMPLAINT = re.compile(r"(FATAL ERROR|WARNING) in native method|^WARNING: JNI", re.MULTILINE)


ABIS = {"x86_64": "x86_64", "aarch64": "arm64-v8a", "armv7l": "armeabi-v7a", "riscv64": "riscv64"}  # Android's names of architectures


def unpack(root, library, jar, work):
    """Make an AAR for this machine, and unpack it. Return the folder of the library, and the jar of the classes."""
    abi = ABIS.get(platform.machine())
    if not shutil.which("zip") or abi is None:
        print("The AAR is not made: zip is missing, or Android has no such machine")
        return pathlib.Path(library).parent, jar
    aar, script = work / "fed.aar", pathlib.Path(root) / "fedclient/bindings/java/aar.sh"
    made = []
    for _ in range(2):
        subprocess.run([script, aar, jar, f"{abi}={library}"], check=True)
        made.append(aar.read_bytes())
    wrong = subprocess.run([script, aar, jar, f"x86={library}"], stderr=subprocess.PIPE, text=True, check=False)
    with zipfile.ZipFile(io.BytesIO(made[0])) as file:
        names = sorted(file.namelist())
        file.extractall(work / "aar")
    wanted = sorted(["AndroidManifest.xml", "R.txt", "classes.jar", f"jni/{abi}/libfedjni.so", "proguard.txt"])
    if names != wanted or made[0] != made[1] or wrong.returncode == 0 or "is not for x86" not in wrong.stderr:
        sys.exit(f"java.py: the AAR has {names}; the same twice: {made[0] == made[1]}; another machine's library: {wrong.stderr}")
    return work / "aar" / "jni" / abi, work / "aar" / "classes.jar"


def check_install(binaries, prefix):
    """The component java installs the classes, the library and the example, and nothing else."""
    build = pathlib.Path(binaries).parent
    subprocess.run(["cmake", "--install", build, "--prefix", prefix, "--component", "java"], check=True, stdout=subprocess.DEVNULL)
    there = {path.name for path in prefix.rglob("*") if path.is_file()}
    if there != {"fed.jar", "libfedjni.so", "Device.java"}:
        sys.exit(f"java.py: the component java installs {sorted(there)}")


def main():
    root, library, jar, binaries, work = sys.argv[1:]
    if not shutil.which("java") or not shutil.which("javac"):
        print("skipped: java or javac is missing; deploy/setup.sh --java installs them")
        sys.exit(77)
    work = pathlib.Path(work)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    folder, jar = unpack(root, library, jar, work)
    sources = sorted(pathlib.Path(__file__).with_name("java").glob("*.java"))
    sources.append(pathlib.Path(root) / "fedclient/bindings/java/examples/Device.java")
    check_install(binaries, work / "installed")
    subprocess.run(["javac", "--release", "8", "-Xlint:all,-options", "-Werror", "-cp", jar, "-d", work / "tests", *sources], check=True)
    run = subprocess.run(["java", "-Xcheck:jni", "-ea", "-Xmx256m", f"-Djava.library.path={folder}", f"-Dfed.root={root}", f"-Dfed.bin={binaries}",
                          "-cp", f"{jar}:{work / 'tests'}", "Tests"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS,
                         check=False)
    print(run.stdout)
    if COMPLAINT.search(run.stdout):
        print("java.py: JNI's checks complained: see above")
        sys.exit(1)
    sys.exit(run.returncode)


main()
