#!/usr/bin/env python3
"""docs/openapi.yaml against the code, both ways: routes, query parameters, bodies, and the fields of every message.

openapi_test.py OPENAPI.JSON DUMP: DUMP prints the route table and the messages (dump_contract.cpp).
"""
import json
import subprocess
import sys

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
ANY = {"get", "put", "post", "delete", "options", "patch"}
INTERNAL = {"ActorRecord", "VolumeMarks", "SnapshotManifest", "SnapshotFile", "SnapshotVolume", "ContainerSnapshot"}  # never served
# Messages whose JSON differs from the message, and how.
RENAMED = {("Operation", "errorJson"): "error"}
FRAME = {"apiVersion", "kind"}

document = json.load(open(sys.argv[1], encoding="utf-8"))
failures = []


def check(condition, text):
    if not condition:
        failures.append(text)


def resolve(node):
    while isinstance(node, dict) and "$ref" in node:
        path = node["$ref"]
        check(path.startswith("#/"), "foreign reference " + path)
        node = document
        for part in path[2:].split("/"):
            if part not in node:
                check(False, "dangling reference " + path)
                return {}
            node = node[part]
    return node


def walk(node, where):
    if isinstance(node, dict):
        if "$ref" in node:
            resolve(node)
        for key, value in node.items():
            walk(value, where + "/" + key)
    elif isinstance(node, list):
        for item in node:
            walk(item, where)


def documented():
    """(method, path) -> (query names, has a body, required path parameters)."""
    out = {}
    for path, item in document["paths"].items():
        shared = [resolve(p) for p in item.get("parameters", [])]
        for method in METHODS:
            if method not in item:
                continue
            operation = item[method]
            parameters = shared + [resolve(p) for p in operation.get("parameters", [])]
            query = {p["name"] for p in parameters if p["in"] == "query"}
            in_path = {p["name"] for p in parameters if p["in"] == "path"}
            wanted = {part[1:-1] for part in path.split("/") if part.startswith("{")}
            check(in_path == wanted, "%s %s: path parameters %s, not %s" % (method, path, in_path, wanted))
            check(all(p.get("required") for p in parameters if p["in"] == "path"), path + ": optional path parameter")
            check("default" in operation["responses"], "%s %s: no default response" % (method, path))
            check(operation.get("summary"), "%s %s: no summary" % (method, path))
            out[method, path] = (query, "requestBody" in operation)
    return out


def served(lines):
    out, messages = {}, {}
    for line in lines:
        words = line.split()
        if words[0] == "route":
            methods = ANY if words[1] == "ANY" else {words[1].lower()}
            for method in methods:
                out[method, words[2]] = (set(words[4:]), words[3])
        elif words[0] == "message":
            messages[words[1]] = set()
        else:
            messages[words[1]].add(RENAMED.get((words[1], words[2]), words[2]))
    return out, messages


def check_routes(docs, code):
    for key in sorted(docs.keys() - code.keys()):
        check(False, "documented but not served: %s %s" % key)
    for key in sorted(code.keys() - docs.keys()):
        check(False, "served but not documented: %s %s" % key)
    for key in sorted(docs.keys() & code.keys()):
        query, body = docs[key]
        known, kind = code[key]
        if kind == "planned":
            check("422" in document["paths"][key[1]][key[0]]["responses"], "%s %s: planned without 422" % key)
            continue
        check(query == known, "%s %s: query %s documented, %s served" % (*key, sorted(query), sorted(known)))
        streamed = key[1].endswith("/proxy/{port}/{path}")
        check(streamed or body == (kind == "body"), "%s %s: body documented %s, served %s" % (*key, body, kind))


def check_messages(messages):
    schemas = document["components"]["schemas"]
    for name, fields in messages.items():
        if name in INTERNAL:
            check(name not in schemas, name + " is internal but documented")
            continue
        if name not in schemas:
            check(False, "no schema of message " + name)
            continue
        properties = set(schemas[name].get("properties", {}))
        check(properties - FRAME == fields - FRAME, "schema %s: %s documented, message has %s" %
              (name, sorted(properties - fields - FRAME), sorted(fields - properties)))
    used = json.dumps(document)
    for name in schemas:
        check("#/components/schemas/%s\"" % name in used or name in ("NodeConfig",), "schema %s is used nowhere" % name)
    for name in document["components"]["parameters"]:
        check("#/components/parameters/%s\"" % name in used, "parameter %s is used nowhere" % name)


check(document["openapi"].startswith("3.1."), "not OpenAPI 3.1")
walk(document, "")
dump = subprocess.run([sys.argv[2]], check=True, capture_output=True, text=True).stdout.splitlines()
routes, found = served(dump)
check_routes(documented(), routes)
check_messages(found)
for failure in failures:
    print("FAILED " + failure)
print("%d routes, %d messages compared" % (len(routes), len(found)))
sys.exit(1 if failures else 0)
