"""ntpsim search on the small shipped scenario."""

import csv
import io
import math
import unittest

from support import SMALL, CliTest


class SearchTest(CliTest):
    def test_the_best_layout_can_be_run_and_is_as_fast_as_promised(self):
        best = self.succeed_json("search", SMALL)["layouts"][0]
        scenario = self.small_scenario()
        scenario.pop("$schema")
        scenario["training"].update(best["training"])
        scenario["policies"] = ["dp_drop"]  # nothing needs to fit at a reduced degree
        result = self.succeed_json("run", self.write("best.json", scenario), "--set", "replications=1")
        self.assertAlmostEqual(result["healthy"]["step_time_s"], best["step_time_s"], places=6)
        first = self.succeed_json("run", SMALL, "--set", "replications=1")
        self.assertLess(best["step_time_s"], first["healthy"]["step_time_s"])

    def test_layouts_are_counted_and_ordered(self):
        result = self.succeed_json("search", SMALL)
        self.assertEqual(result["schema_version"], 1)
        self.assertEqual(result["considered"], result["priced"] + sum(result["refused"].values()))
        steps = [layout["step_time_s"] for layout in result["layouts"]]
        self.assertEqual(len(steps), 10)
        self.assertEqual(steps, sorted(steps))

    def test_gpus_and_fixed_settings(self):
        result = self.succeed_json("search", SMALL, "--gpus", 64, "--fix", "tensor_model_parallel_size=8")
        self.assertEqual(result["gpus"], 64)
        for layout in result["layouts"]:
            training = layout["training"]
            self.assertEqual(training["tensor_model_parallel_size"], 8)
            degrees = ["tensor_model", "pipeline_model", "context", "data"]
            self.assertEqual(math.prod(training[f"{degree}_parallel_size"] for degree in degrees), 64)

    def test_a_smaller_domain_limits_tensor_parallelism(self):
        scenario = self.small_scenario()
        scenario.pop("$schema")
        scenario["cluster"].update(domain_size=2, gpus_per_tray=2)
        scenario["training"].update(
            tensor_model_parallel_size=2, pipeline_model_parallel_size=16, recompute_granularity="full"
        )
        scenario["policies"] = ["dp_drop"]
        layouts = self.succeed_json("search", self.write("small-domains.json", scenario))["layouts"]
        self.assertEqual(len(layouts), 10)
        for layout in layouts:
            self.assertLessEqual(layout["training"]["tensor_model_parallel_size"], 2)
        larger = self.succeed_json("search", SMALL)["layouts"]
        self.assertGreater(layouts[0]["step_time_s"], larger[0]["step_time_s"])

    def test_threads_do_not_matter(self):
        once = self.succeed("search", SMALL, "--format", "json", "--threads", 1)
        for threads in [2, 8]:
            self.assertEqual(self.succeed("search", SMALL, "--format", "json", "--threads", threads), once)

    def test_text_and_csv_hold_the_same_layouts(self):
        layouts = self.succeed_json("search", SMALL)["layouts"]
        text = self.succeed("search", SMALL)
        rows = list(csv.DictReader(io.StringIO(self.succeed("search", SMALL, "--format", "csv"))))
        self.assertEqual(len(rows), len(layouts))
        for row, layout in zip(rows, layouts):
            self.assertEqual(float(row["step_time_s"]), layout["step_time_s"])
            self.assertIn(f"{layout['step_time_s']:.3f} s", text)

    def test_nothing_fits(self):
        self.assertIn("no layout fits", self.succeed("search", SMALL, "--gpus", 8))
        self.assertEqual(self.succeed_json("search", SMALL, "--gpus", 8)["layouts"], [])

    def test_bad_options_are_refused(self):
        for option, value in [
            ("--gpus", "0"),
            ("--gpus", "12"),
            ("--gpus", "many"),
            ("--fix", "tensor_model_parallel_size"),
            ("--fix", "tensor_model_parallel_size="),
            ("--fix", "tensor_model_parallel_size=0"),
            ("--fix", "tensor_model_parallel_size=8x"),
            ("--fix", "seq_length=8192"),
            ("--threads", "0"),
            ("--format", "xml"),
        ]:
            with self.subTest(option=option, value=value):
                self.assertIn(option, self.refuse("search", SMALL, f"{option}={value}"))


if __name__ == "__main__":
    unittest.main()
