"""HTTP models of the UM-Bridge protocol: a server of their own package, and servers that send wrong
answers.
"""

import contextlib
import dataclasses
import json
import pickle
import socket
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

import kmc

pytestmark = pytest.mark.arviz

T = np.linspace(0.0, 2.0, 6)
DATA = 2.0 * np.exp(-1.2 * T) + 0.05 * np.random.default_rng(0).standard_normal(6)
PARAMETERS = {
    "start": kmc.HalfNormal(5),
    "rates": kmc.HalfNormal(2, shape=2),
    "sigma": kmc.HalfNormal(1),
}
SIGMA = kmc.likelihoods.Normal(DATA, sd="sigma")


def decay(start, rates):
    """What both servers compute, from the vectors (1,) and (2,)."""
    return [[start[0] * float(np.exp(-rates[0] * t)) for t in T], [start[0] * rates[1]]]


class Server(ThreadingHTTPServer):
    """A server of the model "decay"; ``answers`` replaces what it sends to a path: an object, or
    bytes.
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.status, self.headers = {}, 200, {}
        self.asked, self.busy, self.busiest, self.lock = [], 0, 0, threading.Lock()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *args):
        """Do not print that a client has gone."""

    def answer(self, path, sent):
        if path in self.answers:
            return self.answers[path]
        if path == "Evaluate":
            return {"output": decay(*sent["input"])}
        return {
            "Info": {"protocolVersion": 1.0, "models": ["decay"]},
            "ModelInfo": {"support": {"Evaluate": True}},
            "InputSizes": {"inputSizes": [1, 2]},
            "OutputSizes": {"outputSizes": [6, 1]},
        }[path]


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(None)

    def do_POST(self):
        self.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def answer(self, sent):
        path = self.path.lstrip("/")
        with self.server.lock:
            self.server.asked.append((path, sent))
            self.server.busy += 1
            self.server.busiest = max(self.server.busiest, self.server.busy)
        if path == "Evaluate":
            time.sleep(0.002)
        found = self.server.answer(path, sent)
        replaced = found is self.server.answers.get(path)
        text = found if isinstance(found, bytes) else json.dumps(found).encode()
        with self.server.lock:
            self.server.busy -= 1  # before the client can ask again
        self.send_response(self.server.status if replaced else 200)
        for name, value in (self.server.headers if replaced else {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def two_outputs():
    return {"level": SIGMA, "speed": kmc.likelihoods.Normal([1.0], 0.5)}


def model_of(server, **options):
    given = {"likelihood": two_outputs(), "parameters": PARAMETERS} | options
    return kmc.from_umbridge(server.url, "decay", **given)


def at_two(model):
    """Outputs at start=2, rates=(1, 0.5)."""
    found = model.simulation({"start": 2.0, "rates": np.array([1.0, 0.5]), "sigma": 1.0})[1]
    return {name.removeprefix("outputs."): values for name, values in found.items()}


def test_outputs_by_name(server):
    found = at_two(model_of(server))
    assert list(found) == ["level", "speed"]
    np.testing.assert_array_equal(found["level"], decay([2.0], [1.0, 0.5])[0])
    np.testing.assert_array_equal(found["speed"], [1.0])


def test_all_outputs_in_one_array(server):
    model = model_of(server, likelihood=kmc.likelihoods.Normal(np.append(DATA, 1.0), sd="sigma"))
    np.testing.assert_array_equal(at_two(model)["y"], np.concatenate(decay([2.0], [1.0, 0.5])))


def test_configuration_and_order_of_inputs(server):
    swapped = {"b": kmc.HalfNormal(2, shape=2), "sigma": kmc.HalfNormal(1), "a": kmc.HalfNormal(5)}
    model = model_of(server, parameters=swapped, inputs=["a", "b"], config={"level": 2})
    model.simulation({"a": 3.0, "b": np.array([1.0, 2.0]), "sigma": 1.0})
    assert server.asked[-1] == (
        "Evaluate",
        {"name": "decay", "config": {"level": 2}, "input": [[3.0], [1.0, 2.0]]},
    )
    assert [sent["config"] for path, sent in server.asked if path.endswith("Sizes")] == [
        {"level": 2}
    ] * 2
    fixed = model_of(server).fix(start=3.0)
    fixed.call(np.zeros(3))
    assert server.asked[-1][1]["input"] == [[3.0], [1.0, 1.0]]


def test_nan_of_json_and_of_python_is_an_output(server):
    model = model_of(server)
    for text in (
        b'{"output": [[NaN, 1, 1, 1, 1, 1e400], [1]]}',
        b'{"output": [[nan, 1, 1, 1, 1, inf], [1]] }',
    ):
        server.answers["Evaluate"] = text
        np.testing.assert_array_equal(at_two(model)["level"], [np.nan, 1, 1, 1, 1, np.inf])


def test_threads_call_at_the_same_time_and_change_no_draw(server):
    model = model_of(server)

    def draws(executor):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", kmc.KmcWarning)
            idata = kmc.sample(
                model,
                sampler="random-walk",
                draws=20,
                warmup=5,
                seed=1,
                progress=False,
                executor=executor,
            )
        return idata["posterior"]["start"].values, idata["outputs"]["level"].values

    alone = draws(None)
    assert server.busiest == 1
    with ThreadPoolExecutor(4) as pool:
        together = draws(pool)
    assert server.busiest > 1
    np.testing.assert_array_equal(alone[0], together[0])
    np.testing.assert_array_equal(alone[1], together[1])


def test_a_model_can_be_sent_to_other_processes(server):
    np.testing.assert_array_equal(
        at_two(pickle.loads(pickle.dumps(model_of(server))))["speed"], [1.0]
    )


WRONG_ANSWERS = {
    "no JSON": (b"<html>", RuntimeError, "Evaluate answered '<html>'"),
    "no object": (["output"], RuntimeError, "expected 'output'"),
    "another key": ({"outputs": [[1.0]]}, RuntimeError, "expected 'output'"),
    "an error": (
        {"error": {"type": "InvalidInput", "message": "rates"}},
        RuntimeError,
        "InvalidInput",
    ),
    "deep": (b"[" * 100_000, RuntimeError, r"answered '\[\[\[\[.{,600}$"),
    "no list": ({"output": 1.0}, ValueError, "outputs 1.0: expected a list of lists"),
    "one list": ({"output": [1.0] * 7}, ValueError, "expected a list of lists"),
    "too few": ({"output": [[1.0] * 5, [1.0]]}, ValueError, r"lengths \(5, 1\): expected \(6, 1\)"),
    "a vector too many": ({"output": [[1.0] * 6, [1.0], []]}, ValueError, r"lengths \(6, 1, 0\)"),
    "text": ({"output": [["1.0"] * 6, [1.0]]}, ValueError, "output '1.0': expected a number"),
    "truth values": ({"output": [[1.0] * 6, [True]]}, ValueError, "output True: expected a number"),
    "null": ({"output": [[1.0] * 6, [None]]}, ValueError, "output None: expected a number"),
    "too long": (b" " * 1_100_000, ConnectionError, "it sends more than 1000448 bytes"),
    "not of this encoding": (b"\xff\xfe", RuntimeError, "Evaluate answered"),
}


@pytest.mark.parametrize("name", WRONG_ANSWERS)
def test_wrong_answers(server, name):
    answer, error, message = WRONG_ANSWERS[name]
    model = model_of(server)
    server.answers["Evaluate"] = answer
    with pytest.raises(error, match=message):
        at_two(model)


def test_a_number_beyond_the_range_of_floats_is_infinite(server):
    model = model_of(server)
    server.answers["Evaluate"] = b'{"output": [[1, 1, 1, 1, 1, 1], [1' + b"0" * 400 + b"]]}"
    assert at_two(model)["speed"] == np.inf


def test_an_error_of_the_model_ends_the_run_or_rejects_the_point(server):
    server.answers["Evaluate"] = {"error": {"type": "ModelError", "message": "no mesh"}}
    server.status = 500
    with pytest.raises(kmc.EvaluationError, match="no mesh.*status 500"):
        kmc.sample(model_of(server), draws=5, seed=1, progress=False)

    def up_to_four(path, sent):
        (start,), rates = sent["input"]
        return {"output": decay([start], rates)} if start < 4.0 else server.answers["Evaluate"]

    rejecting = model_of(server, on_error="reject")
    server.answer = up_to_four
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kmc.KmcWarning)
        idata = kmc.sample(
            rejecting, sampler="random-walk", draws=20, warmup=5, seed=1, progress=False
        )
    assert idata.attrs["n_failed"] > 0 and float(idata["posterior"]["start"].max()) < 4.0


def test_redirects_are_not_followed(server):
    model = model_of(server)
    with Server() as other:
        server.answers["Evaluate"], server.status, server.headers = (
            b"",
            307,
            {"Location": f"{other.url}/Evaluate"},
        )
        with pytest.raises(ConnectionError, match="redirects to another address"):
            at_two(model)
        assert not other.asked


def in_little_time(model):
    """Evaluate with a limit that holds for no other call of the server, as these may be slow on a
    busy machine.
    """
    call = dataclasses.replace(model.simulation.simulator.call, timeout=0.2)
    return call("Evaluate", {"input": [[2.0], [1.0, 0.5]]}, "output", 7)


def test_an_answer_that_takes_too_long(server):
    model = model_of(server, timeout=60)
    released = threading.Event()
    server.answer = lambda path, sent: released.wait() and b""
    with pytest.raises(ConnectionError, match="Evaluate does not answer: .*timed out"):
        in_little_time(model)
    released.set()


def test_an_answer_in_small_pieces_takes_too_long(server):
    model = model_of(server)

    def drip(handler):
        handler.send_response(200)
        handler.end_headers()
        for _ in range(100):
            handler.wfile.write(b" ")
            time.sleep(0.01)

    server.RequestHandlerClass = type("Dripping", (Handler,), {"do_POST": drip})
    with pytest.raises(ConnectionError, match=r"takes longer than timeout=0\.2 seconds|timed out"):
        in_little_time(model)


@pytest.mark.parametrize(
    ("answers", "error", "message"),
    [
        (
            {"Info": {"models": ["other"]}},
            ValueError,
            r"name='decay': expected a model of .*, which has \['other'\]",
        ),
        ({"Info": {"models": "decay"}}, ValueError, "name='decay': expected a model"),
        ({"Info": b"hello"}, RuntimeError, "Info answered 'hello'.*: expected 'models'"),
        ({"ModelInfo": {"support": {"Evaluate": False}}}, ValueError, "cannot evaluate it"),
        ({"ModelInfo": {"support": None}}, ValueError, "cannot evaluate it"),
        (
            {"InputSizes": {"inputSizes": [1, 3]}},
            ValueError,
            "are 3 numbers: expected 4, .* input sizes",
        ),
        (
            {"InputSizes": {"inputSizes": [-1, 4]}},
            ValueError,
            r"InputSizes of the server are \[-1, 4\]",
        ),
        ({"InputSizes": {"inputSizes": [1.5]}}, ValueError, "InputSizes of the server"),
        (
            {"OutputSizes": {"outputSizes": [10**15, 1]}},
            ValueError,
            "OutputSizes of the server.*up to 100000",
        ),
        ({"OutputSizes": {"outputSizes": []}}, ValueError, "OutputSizes of the server"),
        ({"OutputSizes": {"outputSizes": [True, True]}}, ValueError, "OutputSizes of the server"),
        (
            {"OutputSizes": {"outputSizes": [7]}},
            ValueError,
            "expected one for each of the 1 output vectors",
        ),
    ],
)
def test_what_a_server_says_of_its_models(server, answers, error, message):
    server.answers = answers
    with pytest.raises(error, match=message):
        model_of(server)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"config": [1]}, TypeError, r"config=\[1\]: expected a mapping"),
        ({"config": {"a": object()}}, TypeError, "config=.*convert to JSON"),
        ({"timeout": 0}, ValueError, "timeout=0: expected a positive"),
        ({"inputs": ["start"]}, ValueError, r"inputs=\['start'\] are 1 numbers: expected 3"),
        ({"noise": 1}, TypeError, "noise"),
    ],
)
def test_invalid_arguments(server, options, error, message):
    with pytest.raises(error, match=message):
        model_of(server, **options)


@pytest.mark.parametrize("url", ["localhost:4242", "file:///etc/hosts", None, "http://"])
def test_invalid_addresses(url):
    with pytest.raises(ValueError, match="url=.*expected the address of a server"):
        kmc.from_umbridge(url, "decay", likelihood=SIGMA, parameters=PARAMETERS)


def test_nobody_answers(server):
    url = "http://127.0.0.1:9"  # the port of the discard protocol, which nobody uses
    with pytest.raises(ConnectionError, match="http://127.0.0.1:9/Info does not answer"):
        kmc.from_umbridge(url, "decay", likelihood=SIGMA, parameters=PARAMETERS)


SERVE = """
import math, sys, umbridge

class Decay(umbridge.Model):
    def get_input_sizes(self, config):
        return [1, 2]

    def get_output_sizes(self, config):
        return [config["n"], 1]

    def __call__(self, parameters, config):
        (start,), (rate, share) = parameters
        return [[start * math.exp(-rate * i) if start < 9 else math.nan for i in range(config["n"])], [start * share]]

    def supports_evaluate(self):
        return True

umbridge.serve_models([Decay("decay")], int(sys.argv[1]))
"""  # noqa: E501


@pytest.fixture
def real_server():
    """The address of a server of the package umbridge."""
    pytest.importorskip("umbridge")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen(
        [sys.executable, "-c", SERVE, str(port)], stdout=subprocess.DEVNULL
    ) as process:
        try:
            for _ in range(600):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
                assert process.poll() is None
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


def test_a_server_of_the_package_umbridge(real_server):
    model = kmc.from_umbridge(
        real_server,
        "decay",
        likelihood=two_outputs(),
        parameters=PARAMETERS,
        config={"n": 6},
        on_error="reject",
    )
    found = at_two(model)
    np.testing.assert_allclose(found["level"], 2.0 * np.exp(-np.arange(6.0)))
    assert found["speed"] == 1.0
    many = model.simulation({"start": 9.5, "rates": np.array([1.0, 0.5]), "sigma": 1.0})[1]
    assert np.isnan(many["outputs.level"]).all()
    with pytest.raises(RuntimeError, match="InvalidInput.*status 400"):
        dataclasses.replace(model.simulation.simulator, input_sizes=(2, 1))({"x": np.ones(3)})
    with pytest.raises(
        ValueError, match=r"name='growth': expected a model of .*, which has \['decay'\]"
    ):
        kmc.from_umbridge(real_server, "growth", likelihood=SIGMA, parameters=PARAMETERS)
