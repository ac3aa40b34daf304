"""An issuer of OpenID Connect tokens: serves the files of a directory over TLS and prints its URL.

Arguments: the directory, which has tls.pem (certificate and key). The documents are written once the URL is known.
"""

import functools
import http.server
import ssl
import sys


class Quiet(http.server.SimpleHTTPRequestHandler):
    extensions_map = {"": "application/json"}

    def log_message(self, *_):
        pass


directory = sys.argv[1]
handler = functools.partial(Quiet, directory=directory)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(f"{directory}/tls.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
print(f"https://127.0.0.1:{server.server_address[1]}", flush=True)
server.serve_forever()
