#!/usr/bin/env python3
"""Checks that no module includes what lies above it (docs/architecture.md "Layers").

The table below is the rule; changing it is allowed, with the reason in the commit. Also checked: Beast, SQLite, yaml-cpp,
zlib and zstd stay in their module's .cpp files; private headers are included from their own folder only;
public headers include no heavy library.
"""
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]

LAYERS = {
    "util": set(),
    "proto": set(),
    "core": {"util", "proto"},
    "codec": {"util", "core", "proto"},
    "os": {"util"},
    "async": {"util"},
    "http": {"util", "async"},
    "net": {"util", "os", "async"},
    "store": {"util", "proto", "os", "async"},  # os: locks and modes of the database file
    "image": {"util", "core", "os", "async"},  # core: the JSON reader
    # snapshot directories and assets: what a restore needs, kept as long as a snapshot names it (design.md section 4)
    "artifacts": {"util", "proto", "codec", "os", "async", "image"},  # image: its streaming digest
    "logs": {"util", "os", "async"},
    "objects": {"util", "core", "proto", "codec", "store", "image", "artifacts", "os", "async"},
    "runtime": {"util", "core", "proto", "os", "async", "http", "net", "image", "artifacts", "logs"},
    "engine": {"util", "core", "proto", "codec", "async", "store", "objects", "artifacts", "image", "runtime", "logs"},
    "api": {"util", "core", "proto", "codec", "async", "http", "engine", "objects", "logs"},
    "daemon": None,  # composes everything
}

# library header prefix -> modules that may include it, in .cpp files (or private headers) only
LIBRARIES = {
    "boost/beast": {"http"},
    "sqlite3.h": {"store"},
    "yaml-cpp/": {"codec"},
    "zlib.h": {"image"},
    "zstd.h": {"image"},
    "nettle/": {"image"},
    "xxhash.h": {"artifacts"},
    "seccomp.h": {"image"},
    "sys/capability.h": {"image"},
}
PUBLIC_ALLOWED = ("boost/asio/awaitable.hpp",)
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def module_of(path: pathlib.Path) -> str:
    parts = path.relative_to(TOP).parts
    return parts[2] if parts[0] == "include" else parts[1]


def check(path: pathlib.Path) -> list[str]:
    module = module_of(path)
    if module not in LAYERS:
        return [f"{path}: module '{module}' is not in the layer table"]
    allowed = LAYERS[module]
    public = path.relative_to(TOP).parts[0] == "include"
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        name = match.group(1)
        where = f"{path.relative_to(TOP)}:{number}"
        if name.startswith("ate/v1alpha1/"):
            if public:
                found.append(f"{where}: a public header forward-declares messages, it does not include {name}")
            elif allowed is not None and "proto" not in allowed:
                found.append(f"{where}: {module} may not use the object model")
        elif name.startswith("ate/"):
            other = name.split("/")[1]
            if other != module and allowed is not None and other not in allowed:
                found.append(f"{where}: {module} may not include {other}")
        elif name.split("/")[0] in LAYERS and "/" in name and (TOP / "src" / name).exists():
            if name.split("/")[0] != module:
                found.append(f"{where}: private header of another module: {name}")
        else:
            for prefix, users in LIBRARIES.items():
                if name.startswith(prefix) and (public or module not in users):
                    found.append(f"{where}: {name} belongs into .cpp files of {', '.join(sorted(users))}")
            if public and name.startswith(("boost/", "google/", "fmt/")) and name not in PUBLIC_ALLOWED:
                found.append(f"{where}: public header includes {name}")
        if module == "runtime" and "gvisor" in path.parts and "microvm/" in name:
            found.append(f"{where}: the runtimes do not know each other")
    return found


def main() -> int:
    problems = []
    for folder in ("include/ate", "src"):
        for path in sorted((TOP / folder).rglob("*")):
            if path.suffix in (".hpp", ".cpp"):
                problems += check(path)
    print("\n".join(problems) if problems else "includes: every include is within its layer")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
