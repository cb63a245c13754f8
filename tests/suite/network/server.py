"""A web server for the tests: a folder over HTTP and HTTPS, and what it was asked for."""
import http.server
import socketserver
import ssl
import sys
import threading

folder, cert, key = sys.argv[1:4]


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, *args):
        super().__init__(*args, directory=folder)

    def log_message(self, *args):
        pass

    def do_GET(self):
        if self.path != "/":
            return super().do_GET()
        body = f"hello {self.headers.get('Host')}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def finish_request(self, request, address):
        if self.server_address[1] == 443:
            request = context.wrap_socket(request, server_side=True)
        super().finish_request(request, address)

    def handle_error(self, request, address):
        pass


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(cert, key)
for port in (8081, 443):
    threading.Thread(target=Server(("", port), Handler).serve_forever).start()
