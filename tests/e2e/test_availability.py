"""ntpsim availability on the small shipped scenario."""

import csv
import io
import json
import unittest

from support import SMALL, CliTest, run


class AvailabilityTest(CliTest):
    def points(self, *args):
        return self.succeed_json("availability", SMALL, *args)["points"]

    def test_every_fraction_and_policy_has_a_point_with_the_promised_keys(self):
        result = self.succeed_json("availability", SMALL, "--failed-fractions", "0.01,0.05", "--draws", 50)
        policies = [policy if isinstance(policy, str) else policy["name"] for policy in self.small_scenario()["policies"]]
        self.assertEqual(result["schema_version"], 1)
        self.assertEqual(
            [(point["failed_fraction"], point["policy"]) for point in result["points"]],
            [(fraction, policy) for fraction in [0.01, 0.05] for policy in policies],
        )
        for point in result["points"]:
            low, high = point["loss"]["ci95"]
            self.assertTrue(0 <= point["loss"]["mean"] <= 1, point)
            self.assertTrue(low <= point["loss"]["mean"] <= high, point)
            self.assertTrue(0 <= point["domain_availability"] <= 1, point)

    def test_a_whole_cluster_loses_nothing_and_a_failed_one_everything(self):
        for point in self.points("--failed-fractions", "0,1", "--draws", 5):
            expected = point["failed_fraction"]
            self.assertEqual(point["loss"]["mean"], expected, point)
            self.assertEqual(point["domain_availability"], 1 - expected, point)

    def test_more_failures_never_cost_less(self):
        points = self.points("--failed-fractions", "0.002,0.01,0.05,0.2", "--draws", 40)
        for policy in {point["label"] for point in points}:
            losses = [point["loss"]["mean"] for point in points if point["label"] == policy]
            self.assertEqual(losses, sorted(losses), policy)

    def test_a_reduced_degree_loses_no_more_than_dropping_the_replica(self):
        points = self.points("--policies", "dp_drop,ntp", "--failed-fractions", "0.01,0.02,0.05", "--draws", 100)
        losses = {(point["failed_fraction"], point["policy"]): point["loss"]["mean"] for point in points}
        for fraction in [0.01, 0.02, 0.05]:
            self.assertLess(losses[fraction, "ntp"], losses[fraction, "dp_drop"])

    def test_threads_do_not_matter(self):
        command = ["availability", SMALL, "--draws", 100, "--format", "json"]
        once = self.succeed(*command, "--threads", 1)
        for threads in [2, 8]:
            self.assertEqual(self.succeed(*command, "--threads", threads), once)

    def test_text_and_csv_hold_the_same_points(self):
        options = ["--failed-fractions", "0.01,0.02", "--draws", 20]
        points = self.points(*options)
        text = self.succeed("availability", SMALL, *options)
        rows = list(csv.DictReader(io.StringIO(self.succeed("availability", SMALL, *options, "--format", "csv"))))
        self.assertEqual(len(rows), len(points))
        for row, point in zip(rows, points):
            self.assertEqual(row["policy"], point["policy"])
            self.assertEqual(float(row["loss_ratio"]), point["loss"]["mean"])
            self.assertIn(f"{100 * point['loss']['mean']:.2f}%", text)

    def test_bad_options_are_refused(self):
        for option, value in [
            ("--failed-fractions", "0.1,abc"),
            ("--failed-fractions", "1.5"),
            ("--failed-fractions", "-0.1"),
            ("--failed-fractions", "nan"),
            ("--failed-fractions", ""),
            ("--draws", "0"),
            ("--draws", "-3"),
            ("--draws", "few"),
        ]:
            with self.subTest(option=option, value=value):
                self.assertIn(option, self.refuse("availability", SMALL, f"{option}={value}"))

    def test_a_change_that_cannot_matter_is_named(self):
        outcome = run("availability", SMALL, "--draws", 5, "--set", "horizon=3 d", "--format", "json")
        self.assertEqual(outcome.code, 0, outcome)
        self.assertRegex(outcome.stderr, "warning: .*horizon")
        json.loads(outcome.stdout)


if __name__ == "__main__":
    unittest.main()
