"""Check every module of the NIC with verilator's lint and all its warnings, in each width that the module offers."""
# SPDX-License-Identifier: Apache-2.0
import sys

import rtl_tools

WIDTHS = {"nic_compress": ["-GLANES=4", "-GE=1"], "nic_burst_buffer": ["-GWIDTH=128", "-GWIDTH=64"], "nic_decompress": ["-GWIDTH=128", "-GWIDTH=64"]}


def main():
    rtl_tools.need("verilator")
    findings = 0
    for path in sorted(rtl_tools.RTL.glob("*.v")):
        for width in [None, *WIDTHS.get(path.stem, [])]:
            output, status = rtl_tools.run(["verilator", "--lint-only", "-Wall", "-y", rtl_tools.RTL, "--top-module", path.stem,
                                            *filter(None, [width]), path], 60)
            if status:
                findings += 1
                print(f"{path.stem} {width or ''}\n{output}")
    print(f"rtl_lint: {findings} module(s) with findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
