"""Servers on localhost that give one answer, by the protocols of TF Serving."""

import contextlib
import http.server
import json
import threading
import time
from concurrent import futures

import grpc
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc


@contextlib.contextmanager
def rest_server(answer, drip=0.0, paths=None):
    """A server on localhost that gives one answer to everything, byte by byte if it drips.

    The paths that it was asked for are appended to `paths`.
    """
    paths = [] if paths is None else paths

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            paths.append(self.path)
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            with contextlib.suppress(OSError):  # the client may have left
                for start in range(0, len(answer), 1 if drip else len(answer)):
                    self.wfile.write(answer[start : start + 1] if drip else answer)
                    self.wfile.flush()
                    time.sleep(drip)

        def log_message(self, *_):
            pass

    own = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    own.daemon_threads = True
    threading.Thread(target=own.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{own.server_port}"
    finally:
        own.shutdown()


def answering(action):
    return json.dumps({"outputs": {"action": action}}).encode()


@contextlib.contextmanager
def grpc_server(action, models=None):
    """A PredictionService on localhost that answers with a tensor; appends models asked for."""
    models = [] if models is None else models

    class Service(prediction_service_pb2_grpc.PredictionServiceServicer):
        def Predict(self, request, context):
            models.append(request.model_spec)
            return predict_pb2.PredictResponse(outputs={"action": action})

    own = grpc.server(futures.ThreadPoolExecutor(1))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Service(), own)
    port = own.add_insecure_port("127.0.0.1:0")
    own.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        own.stop(None)
