"""ntpsim run on the small shipped scenario: what comes out, and that only the scenario decides it."""

import csv
import io
import json
import unittest

from support import SMALL, CliTest, run

CATEGORIES = {
    "UNPRODUCTIVE_CHECKPOINT_SAVE_TIME",
    "WASTED_PROGRESS_FROM_DISRUPTION",
    "INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION",
    "PROGRAM_STARTUP",
    "UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME",
    "ELASTIC_SLICE_DOWN",
    "ELASTIC_SCALE_UP",
    "ELASTIC_REINITIALIZATION",
    "degraded_tp",
    "dropped_replicas",
    "straggler_wait",
    "paused",
}


def total(ledger):
    return ledger["goodput_time"] + sum(ledger["badput_time"].values())


class ResultTest(CliTest):
    @classmethod
    def setUpClass(cls):
        outcome = run("run", SMALL, "--format", "json")
        assert outcome.code == 0, outcome
        cls.result = json.loads(outcome.stdout)

    def test_the_object_has_the_promised_keys(self):
        self.assertEqual(self.result["schema_version"], 1)
        self.assertRegex(self.result["tool"]["version"], r"^\d+\.\d+\.\d+$")
        self.assertRegex(self.result["tool"]["git"], r"^(unknown|[0-9a-f]{7,40}(-dirty)?)$")
        self.assertIsInstance(self.result["seed"], int)
        self.assertGreaterEqual(self.result["replications"], 2)
        for key in ["mean", "peak", "time_above_fraction"]:
            self.assertIn(key, self.result["failed_gpus"])
        self.assertIn("0.001", self.result["failed_gpus"]["time_above_fraction"])

    def test_every_policy_of_the_scenario_has_its_result_in_order(self):
        wanted = [p if isinstance(p, str) else p["name"] for p in self.small_scenario()["policies"]]
        self.assertEqual([policy["name"] for policy in self.result["policies"]], wanted)
        for policy in self.result["policies"]:
            for key in ["goodput", "goodput_per_provisioned", "throughput_loss", "tokens_per_s", "ledger_s", "failures",
                        "restarts", "pause_fraction", "boosted_domain_hours"]:
                self.assertIn(key, policy)

    def test_every_ledger_sums_to_the_horizon_to_the_nanosecond(self):
        for policy in self.result["policies"]:
            with self.subTest(policy=policy["label"]):
                self.assertEqual(set(policy["ledger_ns"]["badput_time"]), CATEGORIES)
                self.assertEqual(total(policy["ledger_ns"]), self.result["horizon_ns"])
                self.assertAlmostEqual(total(policy["ledger_s"]), self.result["horizon_s"], places=3)
                for span in [policy["ledger_ns"]["goodput_time"], *policy["ledger_ns"]["badput_time"].values()]:
                    self.assertIsInstance(span, int)
                    self.assertGreaterEqual(span, 0)

    def test_goodput_is_the_ledger_s_share_and_its_interval_holds_it(self):
        for policy in self.result["policies"]:
            with self.subTest(policy=policy["label"]):
                goodput = policy["goodput"]
                share = policy["ledger_ns"]["goodput_time"] / self.result["horizon_ns"]
                self.assertAlmostEqual(goodput["mean"], share, places=6)
                low, high = goodput["ci95"]
                self.assertLessEqual(low, goodput["mean"])
                self.assertGreaterEqual(high, goodput["mean"])
                self.assertLess(high - low, 1)
                self.assertLessEqual(policy["goodput_per_provisioned"], goodput["mean"])
                expected = goodput["mean"] * self.result["healthy"]["tokens_per_s"]
                self.assertAlmostEqual(policy["tokens_per_s"] / expected, 1, places=6)

    def test_failures_happen_and_cost_something(self):
        self.assertGreater(self.result["failures_per_day"], 0)
        self.assertGreater(self.result["failed_gpus"]["peak"], 0)
        for policy in self.result["policies"]:
            self.assertGreater(policy["failures"], 0)
            self.assertGreater(policy["goodput"]["mean"], 0)
            self.assertLess(policy["goodput"]["mean"], 1)

    def test_all_policies_see_the_same_failures(self):
        self.assertEqual(len({policy["failures"] for policy in self.result["policies"]}), 1)

    def test_the_resolved_scenario_gives_the_same_result_again(self):
        path = self.write("resolved.json", self.result["scenario"])
        again = self.succeed_json("run", path)
        self.assertEqual(again["policies"], self.result["policies"])
        self.assertEqual(again["scenario"], self.result["scenario"])


class FormatTest(CliTest):
    def test_text_shows_every_policy_and_the_breakdown(self):
        text = self.succeed("run", SMALL)
        result = self.succeed_json("run", SMALL)
        for policy in result["policies"]:
            self.assertIn(f"{100 * policy['goodput']['mean']:.2f}%", text)
            self.assertRegex(text, rf"(?m)^\s*{policy['label']}\b")
            for category, span in policy["ledger_ns"]["badput_time"].items():
                if span > 0:
                    self.assertIn(category, text)

    def test_csv_has_one_row_a_policy_with_units_in_its_header(self):
        text = self.succeed("run", SMALL, "--format", "csv")
        rows = list(csv.DictReader(io.StringIO(text)))
        result = self.succeed_json("run", SMALL)
        self.assertEqual([row["policy"] for row in rows], [policy["name"] for policy in result["policies"]])
        suffixes = ("_s", "_h", "_w", "_ratio", "_count", "_per_s")
        plain = {"scenario", "policy", "label", "spare_domains", "seed", "replications"}
        for name in rows[0]:
            self.assertTrue(name in plain or name.endswith(suffixes), name)
        for row, policy in zip(rows, result["policies"]):
            self.assertEqual(float(row["goodput_ratio"]), policy["goodput"]["mean"])
            self.assertEqual(float(row["tokens_per_s"]), policy["tokens_per_s"])

    def test_one_replication_has_no_interval(self):
        result = self.succeed_json("run", SMALL, "--set", "replications=1")
        self.assertIsNone(result["policies"][0]["goodput"]["ci95"])


class DeterminismTest(CliTest):
    def test_threads_do_not_matter(self):
        for output in ["json", "text", "csv"]:
            once = self.succeed("run", SMALL, "--format", output, "--threads", 1)
            for threads in [2, 8]:
                with self.subTest(format=output, threads=threads):
                    self.assertEqual(self.succeed("run", SMALL, "--format", output, "--threads", threads), once)

    def test_the_locale_and_the_directory_do_not_matter(self):
        once = self.succeed("run", SMALL, "--format", "json")
        for locale in ["C", "C.UTF-8", "de_DE.UTF-8", "tr_TR.UTF-8", "none_such"]:
            with self.subTest(locale=locale):
                self.assertEqual(
                    self.succeed("run", SMALL, "--format", "json", env={"LC_ALL": locale, "LANG": locale}), once
                )
        self.assertEqual(self.succeed("run", SMALL, "--format", "json", cwd=self.directory), once)

    def test_the_seed_matters(self):
        first = self.succeed_json("run", SMALL, "--set", "seed=1")
        other = self.succeed_json("run", SMALL, "--set", "seed=2")
        self.assertNotEqual(first["policies"][0]["goodput"], other["policies"][0]["goodput"])

    def test_the_order_and_choice_of_policies_do_not_change_a_policy_s_result(self):
        everything = {policy["label"]: policy for policy in self.succeed_json("run", SMALL)["policies"]}
        pair = self.succeed_json("run", SMALL, "--policies", "ntp,dp_drop")["policies"]
        self.assertEqual([policy["name"] for policy in pair], ["ntp", "dp_drop"])
        for policy in pair:
            self.assertEqual(policy, everything[policy["label"]])


class SetTest(CliTest):
    def test_a_value_is_changed_by_dots_and_by_pointer(self):
        for setting in ["horizon=3 d", "/horizon=3 d"]:
            result = self.succeed_json("run", SMALL, "--set", setting)
            self.assertEqual(result["horizon_s"], 3 * 86400)
            self.assertEqual(total(result["policies"][0]["ledger_ns"]), 3 * 86400 * 10**9)

    def test_the_last_of_two_changes_counts_and_shows_in_the_resolved_scenario(self):
        result = self.succeed_json("run", SMALL, "--set", "replications=5", "--set", "replications=3")
        self.assertEqual(result["replications"], 3)
        self.assertEqual(result["scenario"]["replications"], 3)

    def test_a_bad_change_is_reported_as_one(self):
        stderr = self.refuse("run", SMALL, "--set", "training.seq_lenght=8192")
        self.assertIn("--set", stderr)
        self.assertIn("seq_length", stderr)


class InputTest(CliTest):
    def test_a_scenario_can_come_from_standard_input(self):
        piped = self.succeed_json("run", "-", stdin=SMALL.read_text())
        self.assertEqual(piped["policies"], self.succeed_json("run", SMALL)["policies"])

    def test_a_cluster_without_failures_loses_only_its_saves(self):
        scenario = self.small_scenario()
        scenario["failures"] = {"classes": []}
        scenario["policies"] = ["dp_drop", "checkpoint_restart"]
        result = self.succeed_json("run", self.write("calm.json", scenario), "--set", "checkpoint.save=0 s")
        for policy in result["policies"]:
            self.assertEqual(policy["goodput"]["mean"], 1)
            self.assertEqual(policy["ledger_ns"]["goodput_time"], result["horizon_ns"])

    def test_a_setting_that_no_chosen_policy_reads_is_named(self):
        outcome = run("run", SMALL, "--policies", "dp_drop", "--set", "recovery.in_job_restart=5 min")
        self.assertEqual(outcome.code, 0, outcome)
        self.assertIn("warning: ", outcome.stderr)
        self.assertIn("/recovery/in_job_restart", outcome.stderr)
        quiet = run("run", SMALL, "--policies", "dp_drop", "--set", "recovery.in_job_restart=5 min", "--quiet")
        self.assertEqual((quiet.code, quiet.stderr), (0, ""), quiet)


if __name__ == "__main__":
    unittest.main()
