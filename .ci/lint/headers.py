#!/usr/bin/env python3
"""Compiles every public header alone, so that each includes what it uses. Usage: headers.py COMPILER"""
import pathlib
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]


def main() -> int:
    compiler = sys.argv[1] if len(sys.argv) > 1 else "clang++-19"
    failed = 0
    headers = sorted((TOP / "include").rglob("*.hpp"))
    for header in headers:
        name = header.relative_to(TOP / "include")
        run = subprocess.run(
            [compiler, "-std=c++23", "-fsyntax-only", "-DFMT_HEADER_ONLY", "-DBOOST_ASIO_SEPARATE_COMPILATION", "-Wall", "-Wextra",
             "-I", str(TOP / "include"), "-x", "c++", "-"],
            input=f'#include "{name}"\n', text=True, capture_output=True)
        if run.returncode != 0:
            failed += 1
            print(f"{name} does not stand alone:\n{run.stderr[:2000]}")
    print(f"headers: {len(headers) - failed} of {len(headers)} stand alone")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
