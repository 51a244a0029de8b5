"""What Perfetto's importer asks of a Chrome trace in JSON. `violations(text)` lists what a trace breaks.

On a file: python3 trace_rules.py TRACE.json, which prints what it breaks and exits with 1 if that is anything.
"""

import json
import sys
from collections import defaultdict
from decimal import Decimal

# Perfetto reads a timestamp with a fraction as a double: nanoseconds are exact below 2^43 microseconds.
EXACT_US = 2**43
MOST_ID = 2**32 - 1

NAMES = {
    "process_name": ("name", str),
    "process_labels": ("labels", str),
    "process_sort_index": ("sort_index", int),
    "thread_name": ("name", str),
    "thread_sort_index": ("sort_index", int),
}


def _number(value):
    return isinstance(value, (int, Decimal)) and not isinstance(value, bool)


def _unique(pairs):
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise ValueError(f"an object with a key twice: {keys}")
    return dict(pairs)


def _not_a_number(text):
    raise ValueError(f"{text} is no JSON")


def read(text):
    """The trace with its decimals exact. Raises ValueError where it is no strict JSON."""
    return json.loads(text, parse_float=Decimal, parse_constant=_not_a_number, object_pairs_hook=_unique)


class _Checker:
    def __init__(self):
        self.found = []
        self.named = set()  # ("process_name", pid, 0) and ("thread_name", pid, tid)
        self.slices = defaultdict(list)  # (pid, tid): (start, end, name)
        self.flows = defaultdict(list)  # (cat, name, id): (phase, pid, tid, ts)

    def ask(self, holds, message):
        if not holds:
            self.found.append(message)
        return holds

    def time(self, event, key, what):
        """Whole nanoseconds of a field in microseconds; None where it is none."""
        value = event.get(key)
        if not self.ask(_number(value), f"{what}: {key} is no number"):
            return None
        nanoseconds = Decimal(value) * 1000
        sound = nanoseconds == nanoseconds.to_integral_value() and value >= 0
        if not self.ask(sound, f"{what}: {key} {value} is negative or no whole number of nanoseconds"):
            return None
        exact = value < EXACT_US or isinstance(value, int)
        if not self.ask(exact, f"{what}: {key} {value} is past 101.8 days, where a fraction is not exact"):
            return None
        return int(nanoseconds)

    def text(self, event, key, what):
        self.ask(isinstance(event.get(key), str) and event[key] != "", f"{what}: {key} is no text")

    def event(self, index, event):
        what = f"event {index}"
        if not self.ask(isinstance(event, dict), f"{what} is no object"):
            return
        self.text(event, "name", what)
        what += f" ({event.get('name')})"
        for key in ("pid", "tid"):
            value = event.get(key, 0 if key == "tid" and event.get("ph") in ("M", "C") else None)
            if not self.ask(type(value) is int and 0 <= value <= MOST_ID, f"{what}: {key} is no id"):
                return
        phase = event.get("ph")
        if phase == "M":
            self.metadata(event, what)
        elif phase == "X":
            self.slice(event, what)
        elif phase in ("s", "f"):
            self.flow(event, what)
        elif phase == "C":
            self.counter(event, what)
        else:
            self.ask(False, f"{what}: ph {phase} is unknown here")

    def metadata(self, event, what):
        if not self.ask(event.get("name") in NAMES, f"{what}: unknown metadata"):
            return
        key, kind = NAMES[event["name"]]
        value = (event.get("args") or {}).get(key)
        self.ask(type(value) is kind, f"{what}: args.{key} is missing or of another type")
        of_thread = event["name"].startswith("thread")
        entry = (event["name"], event["pid"], event.get("tid", 0) if of_thread else 0)
        self.ask(entry not in self.named, f"{what}: given twice")
        self.named.add(entry)

    def slice(self, event, what):
        self.text(event, "cat", what)
        self.ask(isinstance(event.get("args", {}), dict), f"{what}: args is no object")
        start, length = self.time(event, "ts", what), self.time(event, "dur", what)
        if start is not None and length is not None:
            self.slices[event["pid"], event["tid"]].append((start, start + length, what))

    def flow(self, event, what):
        self.text(event, "cat", what)
        self.ask(type(event.get("id")) in (int, str), f"{what}: id is missing")
        if event["ph"] == "f":
            self.ask(event.get("bp") == "e", f"{what}: a flow's end without bp e binds to the next slice")
        ts = self.time(event, "ts", what)
        if ts is not None:
            key = (event.get("cat"), event.get("name"), event.get("id"))
            self.flows[key].append((event["ph"], event["pid"], event["tid"], ts))

    def counter(self, event, what):
        self.time(event, "ts", what)
        series = event.get("args")
        sound = isinstance(series, dict) and series and all(map(_number, series.values()))
        self.ask(sound, f"{what}: args are no numbers by series")

    def check_nesting(self):
        for track, slices in self.slices.items():
            open_slices = []
            for start, end, what in sorted(slices, key=lambda entry: (entry[0], -entry[1])):
                while open_slices and open_slices[-1] <= start:
                    open_slices.pop()
                self.ask(not open_slices or end <= open_slices[-1], f"{what}: overlaps another slice of {track}")
                open_slices.append(end)

    def check_names(self):
        used = set(self.slices) | {(pid, tid) for ends in self.flows.values() for _, pid, tid, _ in ends}
        for pid, tid in sorted(used):
            self.ask(("process_name", pid, 0) in self.named, f"process {pid} has no name")
            self.ask(("thread_name", pid, tid) in self.named, f"thread {tid} of process {pid} has no name")

    def check_flows(self):
        starts = {track: {(start, end) for start, end, _ in slices} for track, slices in self.slices.items()}
        for key, ends in self.flows.items():
            phases = sorted(phase for phase, *_ in ends)
            if not self.ask(phases == ["f", "s"], f"flow {key}: has {phases}, not one start and one end"):
                continue
            (_, *first), (_, *second) = sorted(ends, key=lambda end: end[0] == "f")
            self.ask(first[2] <= second[2], f"flow {key}: ends before it starts")
            for pid, tid, ts in (first, second):
                inside = any(start <= ts < end or ts == start for start, end in starts.get((pid, tid), ()))
                self.ask(inside, f"flow {key}: no slice of {(pid, tid)} encloses {ts} ns")


def violations(text):
    """What the trace in `text` breaks, one sentence each; empty where it is sound."""
    try:
        trace = read(text)
    except ValueError as error:
        return [f"no JSON: {error}"]
    if not isinstance(trace, dict) or not isinstance(trace.get("traceEvents"), list):
        return ["no object with a list of traceEvents"]
    checker = _Checker()
    checker.ask(trace.get("schemaVersion") == 1, "schemaVersion is not 1")
    checker.ask(trace.get("displayTimeUnit") in ("ms", "ns"), "displayTimeUnit is neither ms nor ns")
    for index, event in enumerate(trace["traceEvents"]):
        checker.event(index, event)
    checker.check_nesting()
    checker.check_names()
    checker.check_flows()
    return checker.found


def main(paths):
    if len(paths) != 1:
        print("usage: trace_rules.py TRACE.json", file=sys.stderr)
        return 2
    with open(paths[0], encoding="utf-8") as file:
        found = violations(file.read())
    print("\n".join(found) if found else "sound")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
