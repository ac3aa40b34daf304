"""An aggregated API server in a few lines: it authenticates the front proxy by its certificate, as the ConfigMap
extension-apiserver-authentication says, and keeps notes in memory. Prints its port.

    aggregated.py CERTIFICATE KEY FRONT_PROXY_CA ALLOWED_NAMES
"""

import http.server
import json
import ssl
import sys

GROUP = "notes.example"
LIST = f"/apis/{GROUP}/v1/namespaces/default/notes"
RESOURCES = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": f"{GROUP}/v1",
    "resources": [
        {
            "name": "notes",
            "singularName": "note",
            "namespaced": True,
            "kind": "Note",
            "verbs": ["create", "delete", "get", "list"],
            "shortNames": ["nt"],
        }
    ],
}
notes = {}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, code, body):
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, code, reason):
        self.reply(code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code, "message": reason})

    def user(self):
        subject = dict(pair[0] for pair in self.connection.getpeercert()["subject"])
        if subject["commonName"] not in json.loads(sys.argv[4]):
            return None
        return self.headers["X-Remote-User"]

    def do_GET(self):
        path = self.path.split("?")[0]
        if not self.user():
            return self.refuse(401, "Unauthorized")
        if path == f"/apis/{GROUP}/v1":
            return self.reply(200, RESOURCES)
        if path == LIST:
            items = list(notes.values())
            return self.reply(200, {"kind": "NoteList", "apiVersion": f"{GROUP}/v1", "metadata": {"resourceVersion": "1"}, "items": items})
        note = notes.get(path.removeprefix(LIST + "/"))
        return self.reply(200, note) if note else self.refuse(404, "NotFound")

    def do_POST(self):
        note = json.loads(self.rfile.read(int(self.headers["content-length"])))
        note["metadata"].update(uid="u", creationTimestamp="2026-11-23T00:00:00Z", annotations={"by": self.user()})
        notes[note["metadata"]["name"]] = note
        self.reply(201, note)

    def do_DELETE(self):
        if self.headers["content-length"]:
            self.rfile.read(int(self.headers["content-length"]))
        notes.pop(self.path.split("?")[0].removeprefix(LIST + "/"), None)
        self.reply(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
context.load_verify_locations(sys.argv[3])
context.verify_mode = ssl.CERT_REQUIRED
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()
