#!/usr/bin/env python3
"""House rules that a text search can hold (AGENTS.md lists them with their reasons)."""
import pathlib
import re
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]

RULES = [
    # (folders, pattern, message)
    (("src", "include"), re.compile(r"asio::detached|,\s*detached\s*\)"), "detached swallows exceptions: use TaskScope::spawn"),
    (("src", "include"), re.compile(r"\bstd::system\(|[^_\w.]fork\(\)|\bvfork\(\)|\bpopen\("), "children are started by os/process only"),
    (("src", "include"), re.compile(r"\bwaitpid\(\s*-1"), "reaping is async/reaper's alone"),
    (("src", "include"), re.compile(r"this_thread::sleep|\busleep\(|\bnanosleep\(|::sleep\("), "nothing sleeps for some time: wait for the event"),
    (("src", "include"), re.compile(r"\b(getaddrinfo|getpwnam|getgrnam|getpwuid|dlopen)\("), "does not work in a static binary"),
    (("src", "include", "tests"), re.compile(r"\b(TODO|FIXME|XXX)\b"), "finish it, or say it in the issue's closing note"),
    (("tests",), re.compile(r"(REQUIRE|CHECK)\(\s*(true|1)\s*\)"), "an assertion that can't fail"),
    (("tests",), re.compile(r"this_thread::sleep|\busleep\(|::sleep\(|time\.sleep\((?!POLL)"), "tests wait for events, not for time"),
]
TOP_LEVEL = {"meson.build", "meson_options.txt", "src", "include", "subprojects", "proto", "systemd", "tests", "examples", "docs",
             "README.md", "LICENSE", "AGENTS.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}


def main() -> int:
    names = subprocess.run(["git", "-C", str(TOP), "ls-files"], check=True, capture_output=True, text=True).stdout.split("\n")
    problems = []
    for name in filter(None, names):
        head = name.split("/")[0]
        if head not in TOP_LEVEL and not head.startswith("."):
            problems.append(f"{name}: the top level is fixed (AGENTS.md)")
        path = TOP / name
        if path.suffix not in (".hpp", ".cpp", ".c", ".py") or not path.exists():
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            for folders, pattern, message in RULES:
                if head in folders and pattern.search(line) and "lint: " not in line:
                    problems.append(f"{name}:{number}: {message}")
    print("\n".join(problems) if problems else "rules: held")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
