"""`ntpsim step`: the breakdown sums to the step, traces follow the rules of Perfetto's importer, mistakes are named."""

import json
import unittest

from support import SOURCE, CliTest, run
from trace_rules import violations

SCENARIOS = sorted((SOURCE / "scenarios").glob("*.json"))
RACKS = str(SOURCE / "scenarios" / "llama3-405b-gb200-nvl72.json")
SMALL = str(SOURCE / "scenarios" / "small.json")


class StepTest(CliTest):
    def step(self, *arguments):
        return json.loads(self.succeed("step", *arguments, "--format", "json"))

    def test_the_breakdown_sums_to_the_step(self):
        for scenario in SCENARIOS:
            with self.subTest(scenario=scenario.name):
                result = self.step(str(scenario))
                parts = result["breakdown"].values()
                self.assertAlmostEqual(sum(parts), result["step_time_s"], delta=1e-9 * result["step_time_s"])
                self.assertTrue(all(part >= 0 for part in parts))
                memory = dict(result["memory_per_gpu"])
                total = memory.pop("total_bytes")
                self.assertAlmostEqual(sum(memory.values()), total, delta=1)
                self.assertTrue(0 < result["mfu"] < 1)

    def test_traces_follow_the_importer_s_rules(self):
        for scenario in SCENARIOS:
            with self.subTest(scenario=scenario.name):
                trace = self.directory / "step.json"
                self.succeed("step", str(scenario), "--trace", str(trace), "--trace-microbatches", "16")
                text = trace.read_text()
                self.assertEqual(violations(text), [])
                events = json.loads(text)["traceEvents"]
                stages = [event for event in events if event["name"] == "process_name"]
                training = json.loads(scenario.read_text())["training"]
                self.assertEqual(len(stages), training["pipeline_model_parallel_size"])

    def test_a_trace_ends_with_the_step(self):
        trace = self.directory / "step.json"
        result = self.step(SMALL, "--trace", str(trace))
        slices = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
        end = max(event["ts"] + event["dur"] for event in slices) / 1e6
        self.assertAlmostEqual(end, result["step_time_s"], delta=1e-8)
        names = {event["name"] for event in slices}
        self.assertTrue({"attention", "MLP up", "all-gather", "optimizer"} <= names)
        collective = next(event for event in slices if event["name"] == "all-gather")
        self.assertEqual(collective["args"]["Group size"], 8)

    def test_the_same_bytes_again(self):
        traces = []
        for name in ("one.json", "two.json"):
            self.succeed("step", RACKS, "--trace", str(self.directory / name), "--trace-microbatches", "16")
            traces.append((self.directory / name).read_bytes())
        self.assertEqual(*traces)

    def test_a_million_sequences(self):
        few = self.step(RACKS, "--set", "training.global_batch_size=165888")["step_time_s"]
        many = self.step(RACKS, "--set", "training.global_batch_size=1658880")["step_time_s"]
        self.assertAlmostEqual(many / few, 10, delta=0.2)

    def test_mistakes_are_named(self):
        for arguments, message in [
            ((), "name a scenario file"),
            ((SMALL, "--format", "yaml"), "--format: found 'yaml'"),
            ((SMALL, "--trace", "t.json", "--trace-microbatches", "-1"), "--trace-microbatches: found -1"),
            ((RACKS, "--trace", "t.json", "--set", "training.global_batch_size=1658880"), "give --trace-microbatches"),
            ((SMALL, "--set", "training.recompute_granularity=block"), "needs recompute_num_layers"),
            ((SMALL, "--set", "training.decoder_first_pipeline_num_layers=90"), "but llama3-70b has 80"),
            ((SMALL, "--set", "training.micro_batch_size=8"), "does not fit: at"),
        ]:
            with self.subTest(arguments=arguments):
                outcome = run("step", *arguments, cwd=self.directory)
                self.assertEqual(outcome.code, 2, outcome)
                self.assertIn(message, outcome.stderr)
                self.assertEqual(outcome.stdout, "")
        self.assertEqual(list(self.directory.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
