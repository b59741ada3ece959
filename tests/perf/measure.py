"""Side-by-side measurement: ours, reference, reference, ours; five rounds; medians and their ratio.

The lower confidence bound is the smallest of the five per-round ratios: with five independent
rounds the true median lies below it with probability 1/32 (sign test).
"""
import json
import statistics

ROUNDS = 5


def side_by_side(name, unit, ours, reference, rounds=ROUNDS):
    """Prints the result line. ours() and reference() each give one figure."""
    mine, other, ratios = [], [], []
    for _ in range(rounds):
        first = ours()
        second, third = reference(), reference()
        fourth = ours()
        mine += [first, fourth]
        other += [second, third]
        ratios.append((first + fourth) / (second + third))
    ours_median, other_median = statistics.median(mine), statistics.median(other)
    print(json.dumps({
        "name": name, "ours": round(ours_median, 3), "reference": round(other_median, 3),
        "ratio": round(statistics.median(ratios), 3), "ratio_low": round(min(ratios), 3),
        "unit": unit, "runs": len(mine)}), flush=True)
