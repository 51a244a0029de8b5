"""ntpsim validate: every row with its error, baselines that notice a move, tables of other people, refusals."""

import csv
import io
import json
import statistics
import unittest

from support import SOURCE, CliTest, run

BASELINE = SOURCE / "data" / "validation" / "baseline.json"
TABLE = SOURCE / "data" / "validation" / "measured.csv"
MODELS = SOURCE / "data" / "validation" / "models.json"
SHARED = SOURCE.parent / "shared" / "data" / "throughput" / "measured.csv"
SMALL_TABLE = """id,model,system,gpus,precision,gbs,seq,tp,pp,step_s
a,llama3-8b,DGX-H100,8,BF16,128,8192,1,1,20
b,llama3-8b,DGX-H100,16,BF16,128,8192,1,1,10
"""


class ValidateTest(CliTest):
    def small(self):
        return self.write("runs.csv", SMALL_TABLE)

    def test_the_built_in_table_is_that_of_the_source_tree(self):
        built_in = self.succeed_json("validate", cwd=self.directory)
        given = self.succeed_json("validate", "--table", TABLE, "--models", MODELS)
        self.assertEqual(built_in["rows"], given["rows"])
        self.assertEqual(built_in["summary"], given["summary"])

    def test_the_summary_follows_from_the_rows(self):
        result = self.succeed_json("validate")
        rows = result["rows"]
        self.assertGreaterEqual(len(rows), 190)
        for row in rows:
            self.assertAlmostEqual(row["error"], row["predicted_step_s"] / row["measured_step_s"] - 1, places=12)
            self.assertGreater(row["predicted_memory_gib"], 0)
        summary = result["summary"]
        groups = {**summary["by_group"], "all": summary}
        for name, group in groups.items():
            with self.subTest(group=name):
                def belongs(row):
                    words = [row["group"], row["half"], row["generation"], row["precision"], "all"]
                    return all(word in words for word in name.split())

                errors = {row["id"]: abs(row["error"]) for row in rows if belongs(row)}
                self.assertEqual(group["rows"], len(errors))
                self.assertAlmostEqual(group["mape"], statistics.fmean(errors.values()))
                self.assertAlmostEqual(group["median_ape"], statistics.median(errors.values()))
                within = sum(error <= 0.1 for error in errors.values()) / len(errors)
                self.assertAlmostEqual(group["within_10_percent"], within)
                self.assertAlmostEqual(abs(group["worst"]["error"]), max(errors.values()))
                self.assertAlmostEqual(errors[group["worst"]["id"]], max(errors.values()))
        for name in ("fitted", "unseen", "dense", "moe", "dense unseen", "moe unseen"):
            self.assertIn(name, groups)

    def test_latest_keeps_one_container_of_a_configuration(self):
        every = self.succeed_json("validate")["rows"]
        latest = self.succeed_json("validate", "--latest")["rows"]
        self.assertLess(len(latest), len(every))
        def version(row):
            return [int(part) for part in row["source"].rpartition("container ")[2].split(".")]

        def key(row):
            return tuple(row[name] for name in ("model", "system", "gpus", "precision", "seq"))

        newest = {}
        for row in every:
            if "container " in row["source"]:
                newest[key(row)] = max(newest.get(key(row), []), version(row))
        expected = [row for row in every if "container " not in row["source"] or version(row) == newest[key(row)]]
        self.assertEqual(latest, expected)

    def test_a_configuration_is_in_one_half(self):
        with TABLE.open(newline="") as file:
            stated = {row["id"]: row for row in csv.DictReader(file)}
        halves = {}
        for row in self.succeed_json("validate")["rows"]:
            of_row = stated[row["id"]]
            key = tuple(of_row[name] for name in ("model", "system", "gpus", "precision", "seq"))
            halves.setdefault(key, set()).add(row["half"])
            text = "|".join(key[:3] + (key[3].lower(),) + key[4:])
            fnv = 0xCBF29CE484222325
            for byte in text.encode():
                fnv = (fnv ^ byte) * 0x100000001B3 % 2**64
            self.assertEqual(row["half"], "unseen" if fnv >> 63 else "fitted", row["id"])
        self.assertTrue(all(len(half) == 1 for half in halves.values()))

    def test_csv_and_text_have_every_row(self):
        table = list(csv.DictReader(io.StringIO(self.succeed("validate", "--format", "csv"))))
        rows = self.succeed_json("validate")["rows"]
        self.assertEqual([row["id"] for row in table], [row["id"] for row in rows])
        self.assertEqual([float(row["error_ratio"]) for row in table], [row["error"] for row in rows])
        text = self.succeed("validate")
        for row in rows:
            self.assertIn(row["id"], text)
        self.assertRegex(text, r"(?m)^unseen +\d+ +[\d.]+% +[\d.]+% +[\d.]+% +[+-][\d.]+%  \S+$")
        self.assertRegex(text, r"(?m)^Reproduce with version \S+ \(\S+\): ntpsim validate$")
        self.assertEqual(text, self.succeed("validate"))

    def test_the_users_table_reads(self):
        if not SHARED.exists():
            self.skipTest(f"no {SHARED}")
        rows = self.succeed_json("validate", "--table", SHARED)["rows"]
        self.assertEqual(rows, self.succeed_json("validate")["rows"])

    def test_standard_input_is_a_table(self):
        rows = self.succeed_json("validate", "--table", "-", stdin=SMALL_TABLE.replace("\n", "\r\n"))["rows"]
        self.assertEqual([row["id"] for row in rows], ["a", "b"])

    def test_columns_that_are_not_used_are_named(self):
        path = self.write("runs.csv", SMALL_TABLE.replace("step_s", "step_s,recompte").replace(",20", ",20,full").replace(",10\n", ",10,full\n"))
        outcome = run("validate", "--table", path)
        self.assertEqual(outcome.code, 0, outcome)
        self.assertIn("column 'recompte' is not used; did you mean 'recompute'?", outcome.stderr)
        self.assertEqual(run("validate", "--table", path, "--quiet").stderr, "")


class BaselineTest(CliTest):
    def test_the_projects_own_predictions_have_not_moved(self):
        outcome = run("validate", "--baseline", BASELINE, "--format", "json")
        self.assertEqual(outcome.code, 0, outcome.stderr)
        self.assertTrue(json.loads(outcome.stdout)["baseline"]["holds"])

    def test_a_baseline_holds_until_a_prediction_moves(self):
        path = self.directory / "baseline.json"
        runs = self.write("runs.csv", SMALL_TABLE)
        self.succeed("validate", "--table", runs, "--write-baseline", path)
        self.succeed("validate", "--table", runs, "--baseline", path, "--tolerance", "0%")
        stored = json.loads(path.read_text())
        self.assertEqual(list(stored["predicted_step_s"]), ["a", "b"])
        stored["predicted_step_s"]["a"] *= 1.01
        stored["predicted_step_s"]["gone"] = 3
        del stored["predicted_step_s"]["b"]
        path.write_text(json.dumps(stored))
        outcome = run("validate", "--table", runs, "--baseline", path, "--format", "json")
        self.assertEqual(outcome.code, 1, outcome)
        check = json.loads(outcome.stdout)["baseline"]
        self.assertEqual([row["id"] for row in check["moved"]], ["a"])
        self.assertEqual((check["missing"], check["added"]), (["gone"], ["b"]))
        for part in ("moved: a: ", "-0.99%", "missing: gone", "added: b"):
            self.assertIn(part, outcome.stderr)
        wide = run("validate", "--table", runs, "--baseline", path, "--tolerance", "0.02", "--format", "json")
        self.assertEqual(json.loads(wide.stdout)["baseline"]["moved"], [])

    def test_latest_leaves_the_baseline_whole(self):
        self.succeed("validate", "--latest", "--baseline", BASELINE)

    def test_a_file_that_cannot_be_written_fails(self):
        outcome = run("validate", "--write-baseline", self.directory / "absent" / "file.json")
        self.assertEqual(outcome.code, 1, outcome)


class BadValidateInputTest(CliTest):
    def refuse_validate(self, *args, say):
        stderr = self.refuse("validate", *args)
        for part in say:
            self.assertIn(part, stderr)

    def test_everything_is_reported_at_once(self):
        runs = self.write("runs.csv", SMALL_TABLE.replace("BF16", "BF61").replace("128", "12"))
        models = self.write("models.json", {"models": {"m": {"hidden_size": 0}}})
        baseline = self.write("baseline.json", "{}")
        self.refuse_validate(
            "--table", runs,
            say=["runs.csv: line 2, column precision: found 'BF61'", "line 3, column precision", "did you mean 'bf16'?"],
        )
        self.refuse_validate(
            "--table", runs, "--models", models, "--baseline", baseline,
            say=["models.json: /models/m/hidden_size", "/models/m/vocab_size: missing", "baseline.json: /tool/version"],
        )

    def test_options(self):
        self.refuse_validate("--format", "yaml", say=["found 'yaml', expected text, json or csv"])
        self.refuse_validate("--tolerance", "much", say=["--tolerance: found 'much', expected a share such as 0.5%"])
        self.refuse_validate("--tolerance", "-1%", say=["--tolerance: found '-1%'"])
        self.refuse_validate("--table", "absent.csv", say=["absent.csv: cannot read it"])
        self.refuse_validate("--tabel", "x.csv", say=["did you mean '--table'?"])


if __name__ == "__main__":
    unittest.main()
