"""Nested R-hat by loops over superchains k, chains m and draws n: equations 6 to 9 of Margossian et
al. (2024).
"""

import math


def nested_rhat(f):
    """``f[k][m][n]``: draw n of chain m of superchain k, all of the same numbers."""
    k_all, m_all, n_all = len(f), len(f[0]), len(f[0][0])
    chain = [[sum(f[k][m]) / n_all for m in range(m_all)] for k in range(k_all)]
    superchain = [sum(chain[k]) / m_all for k in range(k_all)]
    overall = sum(superchain) / k_all
    between = sum((superchain[k] - overall) ** 2 for k in range(k_all)) / (k_all - 1)
    within = 0.0
    for k in range(k_all):
        if m_all > 1:
            within += (
                sum((chain[k][m] - superchain[k]) ** 2 for m in range(m_all)) / (m_all - 1) / k_all
            )
        if n_all > 1:
            for m in range(m_all):
                squares = sum((f[k][m][n] - chain[k][m]) ** 2 for n in range(n_all))
                within += squares / (n_all - 1) / m_all / k_all
    return math.sqrt(1.0 + between / within)
