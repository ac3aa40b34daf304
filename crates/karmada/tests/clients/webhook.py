"""An admission webhook with the Kubernetes client. It accepts the API server by its client certificate. `/mutate` labels
ConfigMaps with their user; `/validate` allows two ConfigMaps with this label in a namespace. Prints its port.

    webhook.py CERTIFICATE KEY CLIENT_CA KUBECONFIG
"""

import base64
import http.server
import json
import ssl
import sys

from kubernetes import client, config

LIMIT = 2


def mutate(request):
    name = request["userInfo"]["username"]
    labels = dict(request["object"]["metadata"].get("labels") or {}, owner=name)
    patch = [{"op": "add", "path": "/metadata/labels", "value": labels}]
    encoded = base64.b64encode(json.dumps(patch).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded, "warnings": [f"{name} owns it"]}


def validate(request):
    owner = request["object"]["metadata"]["labels"]["owner"]
    core = client.CoreV1Api()
    owned = core.list_namespaced_config_map(request["namespace"], label_selector=f"owner={owner}").items
    if len(owned) < LIMIT:
        return {"allowed": True}
    return {"allowed": False, "status": {"code": 403, "reason": "Forbidden", "message": f"{owner} has {len(owned)} already"}}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers["content-length"])))
        request = review["request"]
        subject = dict(pair[0] for pair in self.connection.getpeercert()["subject"])
        assert subject["commonName"] == "admission", subject
        decide = mutate if self.path.startswith("/mutate") else validate
        review = {
            "apiVersion": review["apiVersion"],
            "kind": review["kind"],
            "response": dict(decide(request), uid=request["uid"]),
        }
        data = json.dumps(review).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


certificate, key, authority, kubeconfig = sys.argv[1:]
config.load_kube_config(kubeconfig)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority)
tls.load_cert_chain(certificate, key)
tls.verify_mode = ssl.CERT_REQUIRED
server.socket = tls.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()
