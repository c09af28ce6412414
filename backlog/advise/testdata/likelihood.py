"""Finds, without EM, the rates at which the successes of exposures are most likely.

The logarithm of the likelihood, sum of succeeded * log(1 - exp(-hazard)) - (tried - succeeded) * hazard
with hazard = sum of share * rate, is concave in the rates. So one rate after the other is set to where
its derivative is 0, by bisection, until none changes.
"""
import json
import math
import sys


def derivative(k, rates, exposures):
    total = 0.0
    for e in exposures:
        share = e["share"].get(str(k), 0.0)
        if share:
            hazard = sum(s * rates[int(j)] for j, s in e["share"].items())
            total += e["succeeded"] * share / math.expm1(max(hazard, 1e-300)) - (e["tried"] - e["succeeded"]) * share
    return total


def best(k, rates, exposures):
    low, high = 0.0, 1.0
    for _ in range(50):
        rates[k] = (low + high) / 2
        if derivative(k, rates, exposures) > 0:
            low = rates[k]
        else:
            high = rates[k]
    return (low + high) / 2


def maximize(segments, exposures):
    rates = [0.01] * segments
    for _ in range(400):
        before = list(rates)
        for k in range(segments):
            rates[k] = best(k, rates, exposures)
        if max(abs(a - b) for a, b in zip(rates, before)) < 1e-8:
            break
    return rates


def fails(ends, rates, piece):
    """The mean chance of a failure by 4,000 ages, of records that are inserted evenly."""
    def broken(age):
        return math.exp(-rates[0] - sum(r * max(0, min(age, b) - a) for a, b, r in zip(ends, ends[1:], rates[1:])))
    low, high, waited, first = piece
    tried = failed = 0.0
    n = 4000
    for i in range(n):
        age = low + (high - low) * (i + 0.5) / n
        failed += broken(age)
        tried += 1 if first else broken(max(0, age - waited))
    return failed / tried


question = json.load(sys.stdin)
json.dump({
    "rates": maximize(question["segments"], question["exposures"]),
    "fails": [fails(question["ends"], question["curve"], p) for p in question["pieces"]],
}, sys.stdout)
