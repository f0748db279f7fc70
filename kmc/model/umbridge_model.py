"""HTTP models of the UM-Bridge protocol as simulators."""

from __future__ import annotations

import http.client
import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kmc.checks import as_amount, to_float
from kmc.model.dimensions import MOST_NUMBERS
from kmc.model.model import Model

# most bytes of an answer, and more for each number expected
_MOST_BYTES, _BYTES_OF_A_NUMBER = 1_000_000, 64
_SIZES = ("InputSizes", "inputSizes"), ("OutputSizes", "outputSizes")
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity"}


def from_umbridge(
    url: str,
    name: str,
    *,
    likelihood: Any,
    parameters: Any,
    inputs: Sequence[str] | None = None,
    config: Mapping[str, Any] | None = None,
    timeout: float | None = 3600.0,
    **options: Any,
) -> Model:
    """Return a model whose simulator is an HTTP model of the UM-Bridge protocol [1]_.

    In this way the outputs of the HTTP model are learned.

    Parameters
    ----------
    url : str
        Of the server, such as "http://localhost:4242".
    name : str
        Of one of its models.
    likelihood : likelihood of kmc.likelihoods, or mapping of str to likelihood
        The distribution of data around the outputs: of all output vectors, one after the other, as
        one array (n,); or, by names of your own, one for each output vector, in the server's order.
    parameters : mapping of str to parameter
        As for :class:`kmc.Model`.
    inputs : sequence of str, optional
        Names of the parameters that the server gets, in its order; by default all that the
        likelihood does not name. Their values, with arrays raveled, are one vector, which is
        divided into the server's input vectors.
    config : mapping, optional
        The model's configuration, which is sent with each call; its values must convert to JSON.
    timeout : float or None
        Seconds after which a call of the server fails; None: never.
    **options
        Further arguments of :class:`kmc.Model`, such as ``on_error="reject"`` or ``dims``.

    Returns
    -------
    Model
        It can be sent to other processes, each of which calls the server.

    Raises
    ------
    ConnectionError
        The server cannot be reached, does not answer in time, or redirects the call.
    TypeError, ValueError
        An invalid argument, or an answer that is not one of the protocol; the message has the
        value.

    Notes
    -----
    ``kmc.sample(model, executor=concurrent.futures.ThreadPoolExecutor(8))`` makes eight calls at
    the same time, and the draws do not depend on it. Take as many threads as the server, or the
    cluster behind it, evaluates points at once: a thread that waits costs next to nothing.
    ``umbridge.serve_models`` needs ``max_workers=8`` for it.

    An error of the model, and an answer that is not what the protocol says, are exceptions of the
    simulator, which end the run unless ``on_error="reject"``. NaN is an output, as of any
    simulator. No redirect is followed, and no more of an answer is read than the stated number of
    outputs needs, which is at most 100,000.

    References
    ----------
    .. [1] Seelinger, Cheng-Seelinger, Davis, Parno and Reinarz (2023), "UM-Bridge: Uncertainty
       quantification and modeling bridge", Journal of Open Source Software 8.

    Examples
    --------
    >>> import kmc
    >>> model = kmc.from_umbridge(  # doctest: +SKIP
    ...     "http://localhost:4242",
    ...     "forward",
    ...     likelihood=kmc.likelihoods.Normal([1.2, 0.7, 0.4], sd="sigma"),
    ...     parameters={
    ...         "load": kmc.LogNormal(0, 1),
    ...         "moduli": kmc.Gamma(2, 1, shape=4),
    ...         "sigma": kmc.HalfNormal(1),
    ...     },
    ...     config={"level": 2},
    ... )
    >>> idata = kmc.sample(model, max_evaluations=200)  # doctest: +SKIP
    """
    call = Call(_as_url(url), as_amount("timeout", timeout, "seconds"))
    models = call("Info", None, "models")
    if not isinstance(models, list) or name not in models:
        raise ValueError(f"name={name!r}: expected a model of {url}, which has {models!r:.500}")
    about = {"name": name, "config": _as_config(config)}
    support = call("ModelInfo", about, "support")
    if not isinstance(support, dict) or support.get("Evaluate") is not True:
        raise ValueError(
            f"name={name!r}: the server cannot evaluate it, it has the support {support!r:.200}"
        )
    names = tuple(likelihood) if isinstance(likelihood, Mapping) else None
    input_sizes, output_sizes = (_sizes(call(path, about, key), path) for path, key in _SIZES)
    simulator = HTTPSimulator(call, about, input_sizes, output_sizes, names)
    if names is not None and len(names) != len(output_sizes):
        raise ValueError(
            f"likelihood={likelihood!r}: expected one for each of the {len(output_sizes)} output "
            f"vectors"
        )
    model = Model(
        simulator=simulator, inputs=inputs, likelihood=likelihood, parameters=parameters, **options
    )
    assert model.simulation is not None
    given = model.parameters_at(np.zeros(model.dim))
    n, expected = sum(np.size(given[one]) for one in model.simulation.inputs), sum(input_sizes)
    if n != expected:
        raise ValueError(
            f"inputs={list(model.simulation.inputs)!r} are {n} numbers: expected {expected}, as "
            f"the server has the input sizes {list(input_sizes)}"
        )
    return model


@dataclass(frozen=True)
class HTTPSimulator:
    """A simulator that is a model of a server.

    Attributes
    ----------
    call : Call
    about : dict
        Name and configuration of the model.
    input_sizes, output_sizes : tuple of int
        Lengths of the vectors.
    names : tuple of str or None
        Of the output vectors, if they are returned in a dict.
    """

    call: Call
    about: dict[str, Any]
    input_sizes: tuple[int, ...]
    output_sizes: tuple[int, ...]
    names: tuple[str, ...] | None

    def __call__(self, parameters: Mapping[str, Any]) -> Any:
        """Return the outputs by name, or in one array, at the parameters in the server's order."""
        x = np.concatenate([np.ravel(value) for value in parameters.values()])
        blocks = [block.tolist() for block in np.split(x, np.cumsum(self.input_sizes)[:-1])]
        found = self.call(
            "Evaluate", {**self.about, "input": blocks}, "output", sum(self.output_sizes)
        )
        if not isinstance(found, list) or not all(isinstance(one, list) for one in found):
            raise ValueError(
                f"the server returned the outputs {found!r:.200}: expected a list of lists of "
                f"numbers"
            )
        if (lengths := tuple(map(len, found))) != self.output_sizes:
            raise ValueError(
                f"the server returned outputs of the lengths {lengths}: expected "
                f"{self.output_sizes}"
            )
        if odd := [each for one in found for each in one if type(each) not in (int, float)]:
            raise ValueError(f"the server returned the output {odd[0]!r:.200}: expected a number")
        arrays = [np.array(list(map(to_float, one))) for one in found]
        return (
            np.concatenate(arrays)
            if self.names is None
            else dict(zip(self.names, arrays, strict=True))
        )


@dataclass(frozen=True)
class Call:
    """Calls of a server, at a URL without a slash at its end, with a limit in seconds or None."""

    url: str
    timeout: float | None

    def __call__(self, path: str, sent: Any, key: str, n_numbers: int = 0) -> Any:
        """Return what the answer to a sent JSON object, or to a GET request, has under a key."""
        data = None if sent is None else json.dumps(sent, allow_nan=False).encode()
        request = urllib.request.Request(
            f"{self.url}/{path}", data, {"Content-Type": "application/json"}
        )
        try:
            status, text = self._read(request, _MOST_BYTES + _BYTES_OF_A_NUMBER * n_numbers)
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionError(f"{self.url}/{path} does not answer: {error}") from error
        if 300 <= status < 400:
            raise ConnectionError(
                f"{self.url}/{path} redirects to another address: expected the server's own"
            )
        answer = _parsed(text)
        if status == 200 and isinstance(answer, dict) and key in answer:
            return answer[key]
        raise RuntimeError(
            f"{self.url}/{path} answered {text!r:.500}, with the status {status}: expected {key!r}"
        )

    def _read(self, request: urllib.request.Request, most: int) -> tuple[int, str]:
        """Return status and text of the answer, which may come in many small pieces."""
        end = time.monotonic() + (np.inf if self.timeout is None else self.timeout)
        try:
            response = _OPENER.open(request, timeout=self.timeout)
        except urllib.error.HTTPError as error:
            response = error
        text = bytearray()
        with response:
            while piece := response.read1(1 << 16):
                text += piece
                if len(text) > most:
                    raise OSError(f"it sends more than {most} bytes")
                if time.monotonic() > end:
                    raise TimeoutError(f"it takes longer than timeout={self.timeout!r} seconds")
        return response.status, text.decode(errors="replace")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any) -> None:
        """Leave the answer as it is."""


_OPENER = urllib.request.build_opener(_NoRedirects)


def _parsed(text: str) -> Any:
    """Return the object of a JSON text; None if it is none.

    Servers written in Python write nan and inf.
    """
    if "nan" in text or "inf" in text:
        text = re.sub(r"\b(nan|inf)\b", lambda found: _NOT_FINITE[found[0]], text)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _as_url(url: Any) -> str:
    if not isinstance(url, str) or not re.match("https?://.", url):
        raise ValueError(
            f"url={url!r}: expected the address of a server, such as 'http://localhost:4242'"
        )
    return url.rstrip("/")


def _as_config(config: Any) -> dict[str, Any]:
    try:
        found = json.loads(json.dumps({} if config is None else config, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"config={config!r}: expected a mapping of values that convert to JSON; {error}"
        ) from error
    if not isinstance(found, dict):
        raise TypeError(f"config={config!r}: expected a mapping, such as {{'level': 2}}")
    return found


def _sizes(sizes: Any, path: str) -> tuple[int, ...]:
    valid = isinstance(sizes, list) and all(
        type(size) is int and 0 <= size <= MOST_NUMBERS for size in sizes
    )
    if not valid or not 0 < sum(sizes) <= MOST_NUMBERS:
        raise ValueError(
            f"{path} of the server are {sizes!r:.200}: expected up to {MOST_NUMBERS} numbers in all"
        )
    return tuple(sizes)
