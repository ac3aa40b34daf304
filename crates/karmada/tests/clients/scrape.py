"""Scrapes pages of metrics as Prometheus does, and reads them with its Python client, which accepts no error of the format.

    scrape.py CA TOKEN URL...

Prints each page with its number of families and series, or what is wrong with it, and then exits with 1.
"""

import gzip
import math
import ssl
import sys
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

# What Prometheus 3 sends.
ACCEPT = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
# Counters whose names upstream has without the suffix of counters.
UPSTREAM = {
    "authenticated_user_requests",
    "authentication_attempts",
    "create_resource_to_cluster",
    "update_resource_to_cluster",
    "delete_resource_from_cluster",
}
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}


def page(url, ca, token):
    request = urllib.request.Request(url, headers={"Accept": ACCEPT, "Accept-Encoding": "gzip"})
    context = None
    if url.startswith("https:"):
        request.add_header("Authorization", f"Bearer {token}")
        context = ssl.create_default_context(cafile=ca)
    with urllib.request.urlopen(request, context=context, timeout=30) as response:
        body = response.read()
        if response.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        return response.headers["Content-Type"], body.decode()


def lines(text):
    """What the parser does not check: each family once, described before its series, which are together."""
    described, family, kind = {}, None, None
    if not text.endswith("\n"):
        yield "no newline at the end"
    for line in text.splitlines():
        if line.startswith("# "):
            _, what, name, rest = line.split(" ", 3)
            if name in described.setdefault(what, {}):
                yield f"{name}: a second {what}"
            described[what][name] = rest
            if what == "HELP":
                family, kind = name, None
            elif name != family:
                yield f"{name}: {what} without HELP before it"
            else:
                kind = rest
            continue
        name = line.split("{")[0].split(" ")[0]
        if kind is None or name not in [family + suffix for suffix in SUFFIXES[kind]]:
            yield f"{name}: among the series of {family}, a {kind}"
    for name, kind in described.get("TYPE", {}).items():
        if kind == "counter" and not name.endswith("_total") and name not in UPSTREAM:
            yield f"{name}: a counter whose name does not end in _total"
        if kind != "counter" and name.endswith("_total"):
            yield f"{name}: a {kind} with a counter's name"
        if name.endswith(("_bucket", "_count", "_sum")):
            yield f"{name}: a reserved suffix"


def histogram(family):
    series = {}
    for sample in family.samples:
        labels = dict(sample.labels)
        bound = labels.pop("le", None)
        of = series.setdefault(tuple(sorted(labels.items())), {"buckets": []})
        if bound is not None:
            of["buckets"].append((float(bound), sample.value))
        else:
            of[sample.name.removeprefix(family.name)] = sample.value
    for labels, of in series.items():
        bounds, counts = [bound for bound, _ in of["buckets"]], [count for _, count in of["buckets"]]
        if bounds != sorted(set(bounds)) or not bounds or bounds[-1] != math.inf:
            yield f"{family.name}{labels}: buckets {bounds}"
        if counts != sorted(counts) or counts[-1:] != [of.get("_count")] or "_sum" not in of:
            yield f"{family.name}{labels}: {of}"
        if bounds and counts[-1] == 0 and of.get("_sum") != 0:
            yield f"{family.name}{labels}: a sum of nothing"


def families(text):
    seen, names, total = set(), set(), 0
    for family in text_string_to_metric_families(text):
        if family.name in names:
            yield f"{family.name}: a second family"
        names.add(family.name)
        if family.type not in ("counter", "gauge", "histogram"):
            yield f"{family.name}: type {family.type}"
        if not family.documentation.strip():
            yield f"{family.name}: no help"
        for sample in family.samples:
            total += 1
            key = (sample.name, tuple(sorted(sample.labels.items())))
            if key in seen:
                yield f"{key}: a second time"
            seen.add(key)
            if sample.timestamp is not None or math.isnan(sample.value):
                yield f"{key}: {sample}"
            if family.type == "counter" and not (sample.value >= 0 and math.isfinite(sample.value)):
                yield f"{key}: counted {sample.value}"
        if family.type == "histogram":
            yield from histogram(family)
    if not names:
        yield "no families"
    print(f"{len(names)} families, {total} series")


wrong = []
ca, token, *urls = sys.argv[1:]
for url in urls:
    type_, text = page(url, ca, token)
    print(url, end=" ")
    found = [] if type_.startswith("text/plain; version=0.0.4") else [f"Content-Type {type_}"]
    found += [*lines(text), *families(text)]
    wrong += [f"{url} {it}" for it in found]
print("\n".join(wrong))
sys.exit(1 if wrong else 0)
