#!/usr/bin/env python3
"""clang-tidy over the .cpp files that a submission changed. Usage: tidy.py BUILD_DIR [FILE...]

BUILD_DIR holds compile_commands.json and the generated headers. Without FILEs: those below src/ that differ from BASE
(environment ATE_TIDY_BASE, else the merge base with origin/main, else the commit before). At most MOST of them, none of
src/http (a file with Beast takes a minute), and none is begun after SECONDS: what is left out is named, and is no failure.
"""
import os
import pathlib
import re
import subprocess
import sys
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
MOST = 10
SECONDS = 200
ONE_FILE_SECONDS = 90


def git(*words: str) -> str:
    run = subprocess.run(["git", "-C", str(TOP), *words], capture_output=True, text=True)
    return run.stdout.strip() if run.returncode == 0 else ""


def changed() -> list[str]:
    base = os.environ.get("ATE_TIDY_BASE") or git("merge-base", "HEAD", "origin/main")
    if not base or base == git("rev-parse", "HEAD"):
        base = git("rev-parse", "HEAD~1")
    names = git("diff", "--name-only", "--diff-filter=d", base, "--", "src/*.cpp").splitlines() if base else []
    return [name for name in names if not name.startswith("src/http/")]


def main() -> int:
    build = pathlib.Path(sys.argv[1])
    named = sys.argv[2:]
    files = named or changed()
    begun = time.monotonic()
    failed, looked_at, left = [], 0, [] if named else files[MOST:]
    for name in files if named else files[:MOST]:
        if not named and time.monotonic() - begun > SECONDS:
            left.append(name)
            continue
        try:
            run = subprocess.run(["clang-tidy-19", "-p", str(build), "--quiet", str(TOP / name)], cwd=TOP, capture_output=True,
                                 text=True, timeout=None if named else ONE_FILE_SECONDS)
        except subprocess.TimeoutExpired:
            left.append(name)
            continue
        looked_at += 1
        if run.returncode != 0:
            failed.append(name)
            findings = [line for line in run.stdout.splitlines() if re.search(r"(warning|error):", line)]
            print("\n".join(findings) or run.stdout + run.stderr)
    if left:
        print(f"tidy: not looked at: {' '.join(left)}")
    print(f"tidy: {looked_at - len(failed)} of {looked_at} changed files pass")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
