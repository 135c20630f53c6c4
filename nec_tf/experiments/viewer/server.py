"""Serves the page to this machine: one page, its answers, and nothing else."""

import errno
import importlib.resources
import ipaddress
import json
import signal
import socket
import sys
import threading
import urllib.parse
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from nec_tf.experiments.viewer.answers import Answers
from nec_tf.runtime.errors import UserError

_FILES = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/map.js": ("map.js", "text/javascript; charset=utf-8"),
    "/timeline.js": ("timeline.js", "text/javascript; charset=utf-8"),
}
# The page loads its own files only, and no other page may show it in a frame.
_POLICY = "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'"
_LONGEST_BODY = 10_000  # bytes; the page sends two numbers


class Server:
    """A server of one page; `run` serves until Ctrl-C."""

    def __init__(self, answers: Answers, host: str = "127.0.0.1", port: int = 0) -> None:
        """Takes a port.

        Args:
            answers: What the page shows.
            host: Address to listen at; the default is reachable from this machine only.
            port: 0 for any free one.

        Raises:
            UserError: The port is taken, or the address is not one of this machine.
        """
        self._thread: threading.Thread | None = None
        # One question at a time: TensorFlow and the emulator are shared.
        self._lock = threading.Lock()
        own = {"answers": answers, "host": host, "lock": self._lock}
        handler = type("Handler", (_Handler,), own)
        try:
            self._http = _HTTPServer((host, port), handler)
        except (OSError, OverflowError) as error:
            taken = getattr(error, "errno", None) == errno.EADDRINUSE
            reason = "the port is taken: choose another --port, or 0 for any free one"
            raise UserError(
                f"cannot serve at {host}:{port}: {reason if taken else error}"
            ) from error

    @property
    def url(self) -> str:
        """Address of the page."""
        host, port = self._http.server_address[:2]
        shown = "localhost" if host in ("127.0.0.1", "0.0.0.0") else host
        return f"http://{shown!s}:{port}/"

    def run(self) -> None:
        """Serves until Ctrl-C or kill."""
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            self._http.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            pass
        finally:
            signal.signal(signal.SIGTERM, before)
            self.close()

    def start(self) -> None:
        """Serves in another thread until `close`."""
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends after the answer that is being computed; pages get no further one."""
        if self._thread is not None:
            self._http.shutdown()
        self._lock.acquire()  # and kept: what answers come from is closed next
        self._http.server_close()


class _HTTPServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Is silent about pages that were closed while they waited, and loud about all else."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # one connection for all questions of a page
    disable_nagle_algorithm = True  # an answer is two writes: with Nagle's algorithm 40 ms
    timeout = 600  # seconds after which a silent page's connection is closed
    answers: Answers
    host: str
    lock: threading.Lock

    def do_GET(self) -> None:
        """Answers what changes nothing."""
        path, query = self._question()
        if not self._trusted():
            return
        if path in _FILES:
            name, kind = _FILES[path]
            page = importlib.resources.files("nec_tf.experiments.viewer") / name
            self._send(HTTPStatus.OK, page.read_bytes(), kind)
        elif path == "/api/about":
            self._answer(self.answers.about)
        elif path == "/api/history":
            self._answer(self.answers.history)
        elif path == "/api/moment":
            self._answer(
                lambda: self.answers.moment(
                    _number(query, "index"), _number_or_none(query, "action")
                )
            )
        elif path == "/api/entry":
            self._answer(lambda: self.answers.entry(_number(query, "row")))
        elif path == "/api/map":
            with self.lock:
                columns = self.answers.map_columns()
            self._send(HTTPStatus.OK, columns, "application/octet-stream")
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such page")

    def do_POST(self) -> None:
        """Answers what plays on."""
        path, _ = self._question()
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > _LONGEST_BODY:
            self.close_connection = True  # what follows cannot be read as another question
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too long, or of unknown length")
            return
        body = self.rfile.read(int(length))
        if not self._trusted():
            return
        try:
            given = json.loads(body or b"{}")
        except ValueError:
            given = None
        if not isinstance(given, dict):
            self._refuse(HTTPStatus.BAD_REQUEST, "the body must be a JSON object")
        elif path == "/api/step":
            self._answer(
                lambda: self.answers.step(_number(given, "index"), _number_or_none(given, "action"))
            )
        elif path == "/api/restart":
            self._answer(lambda: self.answers.restart(_number_or_none(given, "seed")))
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such page")

    def log_message(self, format: str, *args: Any) -> None:
        """Is silent: a page asks fifteen times a second."""

    def _question(self) -> tuple[str, dict[str, Any]]:
        parts = urllib.parse.urlsplit(self.path)
        return parts.path, dict(urllib.parse.parse_qsl(parts.query))

    def _trusted(self) -> bool:
        """Refuses questions from pages of other sites.

        A site cannot set the Host header, and its name is neither an address nor one of ours, even
        if its name server says that it lives here. Its pages send their Origin.
        """
        given = self.headers.get("Host", "")
        origin = self.headers.get("Origin")
        name = (urllib.parse.urlsplit(f"//{given}").hostname or "").lower()
        names = {"localhost", self.host.lower(), socket.gethostname().lower()}
        if (name in names or _is_address(name)) and origin in (None, f"http://{given}"):
            return True
        self._refuse(HTTPStatus.FORBIDDEN, "this page answers to itself only")
        return False

    def _answer(self, function: Callable[[], dict[str, Any]]) -> None:
        try:
            with self.lock:
                content = json.dumps(function(), allow_nan=False)
        except UserError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
            return
        self._send(HTTPStatus.OK, content.encode(), "application/json")

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        self._send(status, json.dumps({"error": reason}).encode(), "application/json")

    def _send(self, status: HTTPStatus, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", _POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)


def _number(given: dict[str, Any], name: str) -> int:
    try:
        return int(given[name])
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{name} must be a whole number") from error


def _number_or_none(given: dict[str, Any], name: str) -> int | None:
    return None if given.get(name) is None else _number(given, name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
