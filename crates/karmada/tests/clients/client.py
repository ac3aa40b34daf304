"""The Kubernetes Python client against the control plane of the kubeconfig given: typed, dynamic and custom objects.

Prints one line for each thing that works; the first that does not ends it with a traceback.
"""

import base64
import json
import sys
import tempfile
import threading

from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.exceptions import ApiException

NAMESPACE = "python"
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def refused(status, reason, call, *args, **kwargs):
    """Calls what must be refused; answers the message."""
    try:
        call(*args, **kwargs)
    except ApiException as error:
        body = json.loads(error.body)
        assert (error.status, body["reason"], body["kind"]) == (status, reason, "Status"), (error.status, body)
        return body["message"]
    raise AssertionError(f"{call} should have been refused with {status} {reason}")


def config_map(name, data=None, **metadata):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, **metadata), data=data)


def deployment(name):
    labels = {"app": name}
    container = client.V1Container(
        name="one", image="nginx", resources=client.V1ResourceRequirements(requests={"cpu": "100m"}))
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=labels), spec=client.V1PodSpec(containers=[container]))
    spec = client.V1DeploymentSpec(
        replicas=2, selector=client.V1LabelSelector(match_labels=labels), template=template)
    return client.V1Deployment(metadata=client.V1ObjectMeta(name=name, labels=labels), spec=spec)


@check
def version_and_discovery():
    assert client.VersionApi().get_code().major == "1"
    groups = [group.name for group in client.ApisApi().get_api_versions().groups]
    assert "apps" in groups and "policy.karmada.io" in groups, groups
    resources = client.AppsV1Api().get_api_resources().resources
    assert any(resource.kind == "Deployment" and resource.namespaced for resource in resources)


@check
def config_maps_and_secrets():
    core = client.CoreV1Api()
    made = core.create_namespaced_config_map(NAMESPACE, config_map("a", {"k": "v"}))
    assert made.metadata.uid and made.metadata.creation_timestamp.tzinfo
    made.data["l"] = "w"
    replaced = core.replace_namespaced_config_map("a", NAMESPACE, made)
    message = refused(409, "Conflict", core.replace_namespaced_config_map, "a", NAMESPACE, made)
    assert message.startswith('Operation cannot be fulfilled on configmaps "a"'), message
    assert replaced.data == {"k": "v", "l": "w"}
    secret = client.V1Secret(metadata=client.V1ObjectMeta(name="s"), string_data={"k": "v"})
    made = core.create_namespaced_secret(NAMESPACE, secret)
    assert base64.b64decode(made.data["k"]) == b"v" and made.type == "Opaque"
    assert core.read_namespaced_secret("s", NAMESPACE).string_data is None
    # Versions of the client differ in what they make of a Status.
    status = client.ApiClient().sanitize_for_serialization(core.delete_namespaced_config_map("a", NAMESPACE))
    assert (status["status"], status["details"]["name"]) == ("Success", "a")


@check
def errors():
    core = client.CoreV1Api()
    message = refused(404, "NotFound", core.read_namespaced_config_map, "none", NAMESPACE)
    assert message == 'configmaps "none" not found', message
    core.create_namespaced_config_map(NAMESPACE, config_map("twice"))
    refused(409, "AlreadyExists", core.create_namespaced_config_map, NAMESPACE, config_map("twice"))
    message = refused(422, "Invalid", core.create_namespaced_config_map, NAMESPACE, config_map("Bad_Name"))
    assert 'metadata.name: Invalid value: "Bad_Name"' in message, message
    refused(404, "NotFound", core.create_namespaced_config_map, "nowhere", config_map("a"))
    refused(403, "Forbidden", core.delete_namespace, "default")
    stranger = client.Configuration.get_default_copy()
    stranger.cert_file = stranger.key_file = None
    stranger.api_key = {"authorization": "Bearer wrong"}
    refused(401, "Unauthorized", client.CoreV1Api(client.ApiClient(stranger)).list_namespace)
    nobody = client.ApiClient()
    nobody.set_default_header("Impersonate-User", "jane")
    message = refused(403, "Forbidden", client.CoreV1Api(nobody).list_namespace)
    assert message == ('namespaces is forbidden: User "jane" cannot list resource "namespaces" in API group "" '
                       'at the cluster scope'), message


@check
def dry_runs():
    core = client.CoreV1Api()
    core.create_namespaced_config_map(NAMESPACE, config_map("dry"), dry_run="All")
    refused(404, "NotFound", core.read_namespaced_config_map, "dry", NAMESPACE)


@check
def patches():
    core = client.CoreV1Api()
    apps = client.AppsV1Api()
    core.create_namespaced_config_map(NAMESPACE, config_map("patched", {"a": "1", "b": "2"}))
    # A dictionary is a strategic patch, a list a JSON patch.
    patched = core.patch_namespaced_config_map("patched", NAMESPACE, {"data": {"a": None, "c": "3"}})
    assert patched.data == {"b": "2", "c": "3"}, patched.data
    operations = [{"op": "test", "path": "/data/b", "value": "2"}, {"op": "remove", "path": "/data/b"}]
    assert core.patch_namespaced_config_map("patched", NAMESPACE, operations).data == {"c": "3"}
    apps.create_namespaced_deployment(NAMESPACE, deployment("web"))
    sidecar = {"spec": {"template": {"spec": {"containers": [{"name": "two", "image": "busybox"}]}}}}
    patched = apps.patch_namespaced_deployment("web", NAMESPACE, sidecar)
    assert sorted(c.name for c in patched.spec.template.spec.containers) == ["one", "two"]
    merge = patch_as("application/merge-patch+json")
    merged = client.AppsV1Api(merge).patch_namespaced_deployment("web", NAMESPACE, sidecar)
    assert [c.name for c in merged.spec.template.spec.containers] == ["two"]
    assert merged.metadata.generation == 3


def patch_as(content_type):
    """A client whose patches have this type."""
    api_client = client.ApiClient()
    api_client.select_header_content_type = lambda *_args, **_kwargs: content_type
    return api_client


@check
def scale_and_status():
    apps = client.AppsV1Api()
    scale = apps.read_namespaced_deployment_scale("web", NAMESPACE)
    scale.spec.replicas = 5
    assert apps.replace_namespaced_deployment_scale("web", NAMESPACE, scale).spec.replicas == 5
    apps.patch_namespaced_deployment_scale("web", NAMESPACE, {"spec": {"replicas": 6}})
    status = {"status": {"replicas": 6, "readyReplicas": 6}}
    patched = apps.patch_namespaced_deployment_status("web", NAMESPACE, status)
    assert (patched.spec.replicas, patched.status.ready_replicas) == (6, 6)


@check
def server_side_apply():
    core = client.CoreV1Api(patch_as("application/apply-patch+yaml"))
    wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"k": "1"}}
    made = core.patch_namespaced_config_map("applied", NAMESPACE, wanted, field_manager="one")
    assert [(m.manager, m.operation) for m in made.metadata.managed_fields] == [("one", "Apply")]
    wanted["data"]["k"] = "2"
    message = refused(409, "Conflict", core.patch_namespaced_config_map, "applied", NAMESPACE, wanted,
                      field_manager="two")
    assert 'conflict with "one": .data.k' in message, message
    forced = core.patch_namespaced_config_map("applied", NAMESPACE, wanted, field_manager="two", force=True)
    assert forced.data == {"k": "2"}


@check
def pages_and_selectors():
    core = client.CoreV1Api()
    for n in range(5):
        core.create_namespaced_config_map(NAMESPACE, config_map(f"page-{n}", labels={"page": str(n)}))
    names, token = [], None
    while token != "":
        page = core.list_namespaced_config_map(NAMESPACE, label_selector="page", limit=2, _continue=token)
        names += [item.metadata.name for item in page.items]
        token = page.metadata._continue or ""
    assert names == [f"page-{n}" for n in range(5)], names
    two = core.list_namespaced_config_map(NAMESPACE, label_selector="page in (1,2),page!=2")
    assert [item.metadata.name for item in two.items] == ["page-1"]
    one = core.list_config_map_for_all_namespaces(field_selector="metadata.name=page-3")
    assert [item.metadata.name for item in one.items] == ["page-3"]
    core.delete_collection_namespaced_config_map(NAMESPACE, label_selector="page")
    assert not core.list_namespaced_config_map(NAMESPACE, label_selector="page").items


@check
def watches():
    core = client.CoreV1Api()
    start = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version

    def write():
        core.create_namespaced_config_map(NAMESPACE, config_map("seen", labels={"watch": "yes"}))
        core.patch_namespaced_config_map("seen", NAMESPACE, {"data": {"k": "v"}})
        core.patch_namespaced_config_map("seen", NAMESPACE, {"metadata": {"labels": {"watch": None}}})

    writer = threading.Thread(target=write)
    writer.start()
    events = []
    stream = watch.Watch()
    for event in stream.stream(core.list_namespaced_config_map, NAMESPACE, label_selector="watch=yes",
                               resource_version=start, timeout_seconds=30):
        events.append((event["type"], event["object"].metadata.name))
        if len(events) == 3:
            stream.stop()
    writer.join()
    assert events == [("ADDED", "seen"), ("MODIFIED", "seen"), ("DELETED", "seen")], events
    short = watch.Watch().stream(core.list_namespace, timeout_seconds=1)
    assert any(event["object"].metadata.name == "default" for event in short)


@check
def dynamic_client():
    dynamics = dynamic.DynamicClient(client.ApiClient())
    jobs = dynamics.resources.get(api_version="batch/v1", kind="Job")
    container = {"name": "one", "image": "busybox"}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once"},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}}
    made = jobs.create(body=body, namespace=NAMESPACE)
    assert made.spec.backoffLimit == 6
    assert jobs.get(namespace=NAMESPACE, label_selector="no=such").items == []
    patched = jobs.patch(name="once", namespace=NAMESPACE, body={"spec": {"suspend": True}},
                         content_type="application/merge-patch+json")
    assert patched.spec.suspend
    maps = dynamics.resources.get(api_version="v1", kind="ConfigMap")
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dynamic"}, "data": {"k": "v"}}
    assert maps.server_side_apply(body=applied, namespace=NAMESPACE, field_manager="python").data.k == "v"
    jobs.delete(name="once", namespace=NAMESPACE, propagation_policy="Background")
    policies = dynamics.resources.get(api_version="policy.karmada.io/v1alpha1", kind="PropagationPolicy")
    assert policies.get(namespace=NAMESPACE).items == []


@check
def custom_objects():
    group, plural = "python.example.com", "gadgets"
    schema = client.V1JSONSchemaProps(type="object", properties={
        "spec": client.V1JSONSchemaProps(type="object", properties={
            "size": client.V1JSONSchemaProps(type="integer", minimum=1)}),
        "status": client.V1JSONSchemaProps(type="object", x_kubernetes_preserve_unknown_fields=True)})
    definition = client.V1CustomResourceDefinition(
        metadata=client.V1ObjectMeta(name=f"{plural}.{group}"),
        spec=client.V1CustomResourceDefinitionSpec(
            group=group, scope="Namespaced",
            names=client.V1CustomResourceDefinitionNames(kind="Gadget", plural=plural),
            versions=[client.V1CustomResourceDefinitionVersion(
                name="v1", served=True, storage=True,
                subresources=client.V1CustomResourceSubresources(status={}),
                schema=client.V1CustomResourceValidation(open_apiv3_schema=schema))]))
    extensions = client.ApiextensionsV1Api()
    extensions.create_custom_resource_definition(definition)
    for event in watch.Watch().stream(extensions.list_custom_resource_definition, timeout_seconds=30,
                                      field_selector=f"metadata.name={plural}.{group}"):
        conditions = event["object"].status.conditions or []
        if any(c.type == "Established" and c.status == "True" for c in conditions):
            break
    place = (group, "v1", NAMESPACE, plural)
    custom = client.CustomObjectsApi()
    gadget = {"apiVersion": f"{group}/v1", "kind": "Gadget", "metadata": {"name": "one"}, "spec": {"size": 1}}
    made = custom.create_namespaced_custom_object(*place, gadget)
    assert made["metadata"]["generation"] == 1
    patched = custom.patch_namespaced_custom_object(*place, "one", {"spec": {"size": 2}})
    assert patched["spec"] == {"size": 2}
    message = refused(422, "Invalid", custom.patch_namespaced_custom_object, *place, "one", {"spec": {"size": 0}})
    assert "should be greater than or equal to 1" in message, message
    status = custom.patch_namespaced_custom_object_status(*place, "one", {"status": {"phase": "Good"}})
    assert (status["status"]["phase"], status["metadata"]["generation"]) == ("Good", 2)
    assert len(custom.list_namespaced_custom_object(*place)["items"]) == 1
    custom.delete_namespaced_custom_object(*place, "one")
    extensions.delete_custom_resource_definition(f"{plural}.{group}")


@check
def from_yaml():
    text = """
apiVersion: v1
kind: Service
metadata: {name: yaml}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: yaml}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
"""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        made = utils.create_from_yaml(client.ApiClient(), file.name, namespace=NAMESPACE)
        assert made[0][0].spec.cluster_ip and made[1][0].kind == "Role"
        try:
            utils.create_from_yaml(client.ApiClient(), file.name, namespace=NAMESPACE)
            raise AssertionError("both exist already")
        except utils.FailToCreateError as error:
            assert [e.status for e in error.api_exceptions] == [409, 409]


@check
def reviews_and_tokens():
    spec = client.V1SelfSubjectAccessReviewSpec(
        resource_attributes=client.V1ResourceAttributes(verb="create", group="apps", resource="deployments"))
    review = client.AuthorizationV1Api().create_self_subject_access_review(client.V1SelfSubjectAccessReview(spec=spec))
    assert review.status.allowed
    core = client.CoreV1Api()
    core.create_namespaced_service_account(
        NAMESPACE, client.V1ServiceAccount(metadata=client.V1ObjectMeta(name="robot")))
    request = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[], expiration_seconds=600))
    token = core.create_namespaced_service_account_token("robot", NAMESPACE, request).status.token
    review = client.V1TokenReview(spec=client.V1TokenReviewSpec(token=token))
    status = client.AuthenticationV1Api().create_token_review(review).status
    assert status.authenticated and status.user.username == f"system:serviceaccount:{NAMESPACE}:robot"


@check
def leases_and_quantities():
    leases = client.CoordinationV1Api()
    spec = client.V1LeaseSpec(holder_identity="me", lease_duration_seconds=15)
    lease = client.V1Lease(metadata=client.V1ObjectMeta(name="leader"), spec=spec)
    lease = leases.create_namespaced_lease(NAMESPACE, lease)
    lease.spec.lease_transitions = 1
    assert leases.replace_namespaced_lease("leader", NAMESPACE, lease).spec.lease_transitions == 1
    read = client.AppsV1Api().read_namespaced_deployment("web", NAMESPACE)
    assert [c.name for c in read.spec.template.spec.containers] == ["two"]


@check
def namespaces_end():
    core = client.CoreV1Api()
    core.delete_namespace(NAMESPACE)
    for event in watch.Watch().stream(core.list_namespace, timeout_seconds=60,
                                      field_selector=f"metadata.name={NAMESPACE}"):
        if event["type"] == "DELETED":
            break
    refused(404, "NotFound", core.read_namespace, NAMESPACE)


def main():
    config.load_kube_config(sys.argv[1])
    client.CoreV1Api().create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=NAMESPACE)))
    for function in CHECKS:
        function()
        print("ok", function.__name__)
    print(len(CHECKS), "checks")


main()
