"""Data drawn at each draw of a model with a simulator, for the group ``posterior_predictive``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kmc.model.model import Model
from kmc.model.simulation import OUTPUTS, PREDICTIVE, Simulation
from kmc.seeds import Stream, substream


class SimulatedData:
    """Draws data at the outputs that belong to the states of the chains.

    Each draw has a random stream of its own, made of the run's seed and of the number of the draw. So a run that is
    resumed has the same data.

    Parameters
    ----------
    model : Model
    simulation : Simulation
        That of the model.
    seed : SeedSequence
        The seed of the run, or of one of its independent runs.
    """

    def __init__(self, model: Model, simulation: Simulation, seed: np.random.SeedSequence):
        self._model, self._simulation, self._seed = model, simulation, seed

    def __call__(self, draw: int, positions: np.ndarray, blobs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return data by name, (chains, *shape), at a draw (chains, d) of each chain and its blobs."""
        rng = np.random.default_rng(substream(self._seed, Stream.PREDICTIVE, draw))
        outputs = {name: blobs[f"{OUTPUTS}.{name}"] for name in self._simulation.likelihoods}
        rows = [
            self._simulation.draw(
                {name: rows[chain] for name, rows in outputs.items()}, self._model.parameters_at(x), rng
            )
            for chain, x in enumerate(positions)
        ]
        return {f"{PREDICTIVE}.{name}": np.stack([row[name] for row in rows]) for name in rows[0]}


def simulated_data(model: Model, seed: np.random.SeedSequence) -> SimulatedData | None:
    """Return what draws data for a model; None if it cannot."""
    simulation = model.simulation
    if simulation is None or not simulation.can_draw:
        return None
    return SimulatedData(model, simulation, seed)
