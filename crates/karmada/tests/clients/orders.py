"""An operator of the framework kopf, unchanged against the API server: its finalizers, patches, events, indexes, timers and
webhooks whose configuration the framework itself writes. Prints the number of checks.

    orders.py KUBECONFIG CERTIFICATE KEY AUTHORITY
"""

import asyncio
import logging
import os
import sys
import threading
import time

import kopf
from kubernetes import client, config

GROUP, VERSION, PLURAL, NAMESPACE = "shop.example.com", "v1", "orders", "default"
checks = 0


def check(what, is_so):
    global checks
    assert is_so, what
    checks += 1


def until(what, is_so):
    """Waits for the operator, which works beside this thread."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        try:
            if is_so():
                return check(what, True)
        except client.ApiException as error:
            if error.status != 404:
                raise
        time.sleep(0.05)
    raise AssertionError(what)


@kopf.on.login()
def login(**arguments):
    return kopf.login_with_kubeconfig(**arguments)


@kopf.on.startup()
def configure(settings, **_):
    settings.posting.level = logging.INFO
    _, _, certificate, key, authority = sys.argv
    settings.admission.server = kopf.WebhookServer(
        addr="127.0.0.1", host="127.0.0.1", certfile=certificate, pkeyfile=key, cafile=authority)
    settings.admission.managed = "orders.shop.example.com"


@kopf.index("orders")
def by_customer(spec, name, **_):
    return {spec.get("customer"): name}


@kopf.on.validate("orders")
def positive(spec, warnings, **_):
    warnings.append("orders are final")
    if spec.get("count", 0) <= 0:
        raise kopf.AdmissionError("the count must be positive", code=422)


@kopf.on.mutate("orders")
def default_customer(spec, patch, **_):
    if not spec.get("customer"):
        patch.spec["customer"] = "nobody"


@kopf.on.create("orders")
def created(spec, name, body, by_customer, retry, **_):
    if retry == 0:
        raise kopf.TemporaryError("not yet", delay=0.1)
    child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"n": str(spec["count"])}}
    kopf.adopt(child, owner=body)
    client.CoreV1Api().create_namespaced_config_map(NAMESPACE, child)
    kopf.info(body, reason="Ordered", message="an order")
    return {"child": name, "orders": len(by_customer.get(spec["customer"], []))}


@kopf.on.update("orders", field="spec.count")
def changed(name, old, new, **_):
    client.CoreV1Api().patch_namespaced_config_map(name, NAMESPACE, {"data": {"n": str(new), "was": str(old)}})


@kopf.on.delete("orders")
def deleted(name, **_):
    client.CoreV1Api().delete_namespaced_config_map(name, NAMESPACE)


@kopf.timer("orders", interval=0.2)
def tick(patch, status, **_):
    patch.status["ticks"] = status.get("ticks", 0) + 1


def definition():
    schema = {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"count": {"type": "integer"}, "customer": {"type": "string"}}},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{PLURAL}.{GROUP}"},
            "spec": {"group": GROUP, "scope": "Namespaced", "names": {"plural": PLURAL, "kind": "Order"},
                     "versions": [{"name": VERSION, "served": True, "storage": True,
                                   "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema}}]}}


def run(stop, ready):
    asyncio.run(kopf.operator(namespace=NAMESPACE, stop_flag=stop, ready_flag=ready, standalone=True))


def main():
    os.environ["KUBECONFIG"] = sys.argv[1]
    config.load_kube_config(sys.argv[1])
    client.ApiextensionsV1Api().create_custom_resource_definition(definition())
    orders, core = client.CustomObjectsApi(), client.CoreV1Api()
    stop, ready = threading.Event(), threading.Event()
    operator = threading.Thread(target=run, args=(stop, ready))
    operator.start()
    try:
        drive(orders, core, ready)
    finally:
        stop.set()
        operator.join(60)
    check("the operator ended", not operator.is_alive())
    print(f"{checks} checks")


def drive(orders, core, ready):
    check("the operator is ready", ready.wait(120))
    webhooks = client.AdmissionregistrationV1Api()

    def is_called():
        found = webhooks.read_validating_webhook_configuration("orders.shop.example.com")
        return bool(found.webhooks)

    until("the framework writes its webhooks", is_called)
    order = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Order", "metadata": {"name": "one"}, "spec": {"count": 3}}
    place = (GROUP, VERSION, NAMESPACE, PLURAL)

    def is_refused():
        bad = dict(order, metadata={"name": "bad"}, spec={"count": 0})
        try:
            orders.create_namespaced_custom_object(*place, bad)
        except client.ApiException as error:
            return error.status == 422 and "the count must be positive" in error.body
        orders.delete_namespaced_custom_object(*place, "bad")
        return False

    until("the webhook refuses", is_refused)
    orders.create_namespaced_custom_object(*place, order)

    def read():
        return orders.get_namespaced_custom_object(*place, "one")

    check("the webhook mutates", read()["spec"]["customer"] == "nobody")
    until("the handler reports", lambda: read().get("status", {}).get("created", {}).get("child") == "one")
    check("the framework's finalizer", read()["metadata"]["finalizers"] == ["kopf.zalando.org/KopfFinalizerMarker"])
    child = core.read_namespaced_config_map("one", NAMESPACE)
    check("the child is owned", child.metadata.owner_references[0].uid == read()["metadata"]["uid"])
    until("the timer runs", lambda: read()["status"].get("ticks", 0) >= 3)
    orders.patch_namespaced_custom_object(*place, "one", {"spec": {"count": 5}})
    until("the change arrives", lambda: core.read_namespaced_config_map("one", NAMESPACE).data == {"n": "5", "was": "3"})

    def has_event():
        events = core.list_namespaced_event(NAMESPACE, field_selector="involvedObject.name=one").items
        return any(event.reason == "Ordered" for event in events)

    until("an event is posted", has_event)
    orders.delete_namespaced_custom_object(*place, "one")

    def is_gone(get):
        try:
            get()
        except client.ApiException as error:
            return error.status == 404
        return False

    until("the finalizer is removed", lambda: is_gone(read))
    until("the child is deleted", lambda: is_gone(lambda: core.read_namespaced_config_map("one", NAMESPACE)))


main()
