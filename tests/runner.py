#!/usr/bin/env python3
"""Runs every test of a build and counts cases: runner.py BUILD [--only TEXT] [--suite NAME ...]

Three kinds: Catch2 executables that Meson lists (each case counts), other executables that Meson lists (one each; exit 77 is
a skip), and Python unittest files under tests/integration. Prints what failed and what was skipped and why, writes
BUILD/counts.json, and ends with exit code 1 when something failed.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import time
import unittest
import xml.etree.ElementTree as ElementTree

TOP = pathlib.Path(__file__).resolve().parents[1]


class Totals:
    def __init__(self):
        self.passed, self.failed, self.skipped, self.notes = 0, 0, 0, []

    def fail(self, text):
        self.failed += 1
        self.notes.append("FAILED  " + text)

    def skip(self, text):
        self.skipped += 1
        self.notes.append("SKIPPED " + text)


def run_catch(name, command, environment, build, totals, limit):
    report = pathlib.Path(build) / "junit" / (name + ".xml")
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    begun = time.monotonic()
    try:
        run = subprocess.run(command + ["--reporter", "junit", "--out", str(report)], env=environment, timeout=limit,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", stdin=subprocess.DEVNULL, cwd=build)
        output, code = run.stdout, run.returncode
    except subprocess.TimeoutExpired as expired:
        output, code = (expired.stdout or b"").decode(errors="replace") if isinstance(expired.stdout, bytes) else str(expired.stdout), "time limit"
    took = time.monotonic() - begun
    if code == 77:
        totals.skip(f"{name}: {last_line(output)}")
        return
    cases = failures = skips = 0
    if report.exists() and report.stat().st_size > 0:
        try:
            for case in ElementTree.parse(report).getroot().iter("testcase"):
                cases += 1
                text = case.get("name", "?")
                trouble = case.find("failure") if case.find("failure") is not None else case.find("error")
                skipped = case.find("skipped")
                if trouble is not None:
                    failures += 1
                    totals.fail(f"{name}: {text}: {(trouble.text or '').strip()[:1500]}")
                elif skipped is not None:
                    skips += 1
                    totals.skip(f"{name}: {text}: {(skipped.text or skipped.get('message') or '').strip()[:300]}")
                else:
                    totals.passed += 1
        except ElementTree.ParseError:
            cases = 0
    for line in output.splitlines():  # Catch2 v2 has no SKIP: a case says it on a line of its own and still counts as skipped
        if line.startswith("SKIPPED "):
            totals.notes.append(f"SKIPPED {name}: {line[8:]}")
            totals.skipped += 1
            totals.passed -= 1
    if code != 0 and failures == 0:
        totals.fail(f"{name}: ended with {code}\n{tail(output)}")
    elif cases == 0:
        totals.fail(f"{name}: ran no case\n{tail(output)}")
    print(f"  {name}: {cases} cases, {failures} failed, {took:.1f} s", flush=True)


def run_plain(name, command, environment, build, totals, limit):
    begun = time.monotonic()
    try:
        run = subprocess.run(command, env=environment, timeout=limit, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             errors="replace", stdin=subprocess.DEVNULL, cwd=build)
        output, code = run.stdout, run.returncode
    except subprocess.TimeoutExpired:
        output, code = "", "time limit"
    print(f"  {name}: exit {code}, {time.monotonic() - begun:.1f} s", flush=True)
    if code == 77:
        totals.skip(f"{name}: {last_line(output)}")
    elif code == 0:
        totals.passed += 1
    else:
        totals.fail(f"{name}: ended with {code}\n{tail(output)}")


def last_line(text):
    lines = [line for line in (text or "").splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"


def tail(text, count=40):
    return "\n".join((text or "").splitlines()[-count:])


class Counting(unittest.TestResult):
    def __init__(self, totals):
        super().__init__()
        self.totals = totals
        self.begun = 0.0

    def startTest(self, test):
        super().startTest(test)
        self.begun = time.monotonic()

    def stopTest(self, test):
        print(f"  {test.id()}: {time.monotonic() - self.begun:.1f} s", flush=True)

    def addSuccess(self, test):
        self.totals.passed += 1

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.totals.fail(f"{test.id()}\n{self.failures[-1][1]}")

    def addError(self, test, err):
        super().addError(test, err)
        self.totals.fail(f"{test.id()}\n{self.errors[-1][1]}")

    def addSkip(self, test, reason):
        self.totals.skip(f"{test.id()}: {reason}")

    def addSubTest(self, test, subtest, err):
        if err is not None:
            super().addSubTest(test, subtest, err)
            self.totals.fail(f"{subtest.id()}\n{self._exc_info_to_string(err, test)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--only", default="")
    parser.add_argument("--suite", action="append", default=[])
    parser.add_argument("--no-integration", action="store_true")
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    totals = Totals()
    environment = dict(os.environ, LC_ALL="C.UTF-8", UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1",
                       ASAN_OPTIONS="detect_stack_use_after_return=0:abort_on_error=0:strict_string_checks=1",
                       LSAN_OPTIONS=f"suppressions={TOP}/.ci/suppressions/lsan.txt:print_suppressions=0")
    listed = json.loads(subprocess.run(["meson", "introspect", "--tests", build], check=True, capture_output=True, text=True).stdout)
    for test in listed:
        suites = {suite.split(":")[-1] for suite in test["suite"]}
        if options.only not in test["name"] or (options.suite and not suites & set(options.suite)):
            continue
        env = dict(environment, **test.get("env", {}))
        command, limit = test["cmd"], max(test.get("timeout", 30), 300)
        if os.path.basename(command[0]) == test["name"]:  # an executable of its own: Catch2
            run_catch(test["name"], command, env, build, totals, limit)
        else:
            run_plain(test["name"], command, env, build, totals, limit)
    if not options.no_integration:
        os.environ.update({key: environment[key] for key in ("UBSAN_OPTIONS", "ASAN_OPTIONS", "LSAN_OPTIONS")})
        sys.path.insert(0, str(TOP / "tests" / "integration"))
        loader = unittest.TestLoader()
        for path in sorted((TOP / "tests" / "integration").glob("test_*.py")):
            if options.only in path.stem:
                result = Counting(totals)
                loader.loadTestsFromName(path.stem).run(result)
    print()
    for note in totals.notes:
        print(note)
    with open(os.path.join(build, "counts.json"), "w") as out:
        json.dump({"passed": totals.passed, "failed": totals.failed, "skipped": totals.skipped}, out)
    print(f"{totals.passed} passed, {totals.failed} failed, {totals.skipped} skipped")
    return 1 if totals.failed else 0


if __name__ == "__main__":
    sys.exit(main())
