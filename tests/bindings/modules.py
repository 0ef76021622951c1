"""Check that the public headers are clang's modules: modules.py ROOT MADE

Lays the headers out as they are installed, and compiles with clang's modules: each header alone, then imports.c beside this
file, which includes nothing. Every header of a folder must be in its module. MADE is where CMake puts the headers that it
makes. Functions that Swift can't see, those with variable arguments, must have another form. With swiftc the example in
Swift is compiled too. Exit status 77: there is no clang.
"""
# SPDX-License-Identifier: Apache-2.0
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# Functions with variable arguments, and what Swift can call instead; None: nothing is needed.
OTHER_FORMS = {"fed_fail": "fed_fail_with", "fed_write_printf": "fed_write_bytes", "fed_logf": None, "fed_logf_about": "fed_log_pass", "fed_progress_show": None}
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
VARIADIC = re.compile(r"\b(\w+)\([^;{}()]*(?:\([^()]*\)[^;{}()]*)*\.\.\.\)")


def lay_out(root, made, folder):
    for include in [*sorted(pathlib.Path(root).glob("*/include")), *sorted(pathlib.Path(root).glob("*/*/include")), pathlib.Path(made)]:
        if include.parts[len(pathlib.Path(root).parts)] not in ("tests", "build") or include == pathlib.Path(made):
            shutil.copytree(include, folder, dirs_exist_ok=True)


def clang(folder, source, *more):
    command = ["clang", "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-fmodules", "-fmodules-cache-path=" + str(folder / "cache"), "-Wall", "-Wextra",
               "-Werror", "-Wincomplete-umbrella", "-fsyntax-only", "-I" + str(folder / "include"), *more]
    run = subprocess.run([*command, "-x", "c", "-"], input=source, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if run.returncode != 0:
        sys.exit(f"modules.py: clang refuses\n{source}\n{run.stdout}")
    return run.stdout


def check_variadic(folder):
    text = COMMENT.sub("", "\n".join(path.read_text() for path in folder.rglob("*.h")))
    for name in sorted(set(VARIADIC.findall(text))):
        if name not in OTHER_FORMS:
            sys.exit(f"modules.py: {name} has variable arguments, so Swift can't call it: add another form, and say so in OTHER_FORMS")
        if OTHER_FORMS[name] is not None and not re.search(rf"\b{OTHER_FORMS[name]}\(", text):
            sys.exit(f"modules.py: no header declares {OTHER_FORMS[name]}, which OTHER_FORMS names for {name}")


def check_swift(root, folder):
    example = pathlib.Path(root) / "fedclient/bindings/swift/Device.swift"
    if not shutil.which("swiftc"):
        print(f"{example.name} is not compiled: swiftc is missing")
        return
    subprocess.run(["swiftc", "-typecheck", "-I", folder / "include", example], check=True)


def main():
    root, made = sys.argv[1:]
    if not shutil.which("clang"):
        print("skipped: clang is missing; deploy/setup.sh installs it")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        lay_out(root, made, folder / "include")
        check_variadic(folder / "include")
        modules = {path.parent.name: re.search(r"^module (\w+)", path.read_text(), re.MULTILINE)[1]
                   for path in sorted((folder / "include").glob("*/module.modulemap"))}
        headers = sorted(path.relative_to(folder / "include") for path in (folder / "include").glob("*/*.h"))
        for header in headers:
            if header.parent.name not in modules:
                sys.exit(f"modules.py: {header} is in no module: its folder needs a module.modulemap")
            said = clang(folder, f'#include "{header}"\n', "-Rmodule-import")
            if f"'{modules[header.parent.name]}'" not in said:
                sys.exit(f"modules.py: {header} is not part of the module {modules[header.parent.name]}\n{said}")
        clang(folder, pathlib.Path(__file__).with_name("modules").joinpath("imports.c").read_text())
        print(f"modules: {len(headers)} headers in {', '.join(modules.values())}")
        check_swift(root, folder)


main()
