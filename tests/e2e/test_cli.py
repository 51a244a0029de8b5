"""The verbs, their help, and what a slip on the command line leads to."""

import json
import re
import subprocess
import unittest

from support import BINARY, SOURCE, CliTest, run

VERBS = ["run", "availability", "list", "schema"]
CATALOGS = ["gpus", "systems", "models", "policies", "distributions"]
POLICIES = ["dp_drop", "checkpoint_restart", "hot_spares", "ntp", "ntp_pw"]


class HelpTest(CliTest):
    def test_help_names_every_verb(self):
        text = self.succeed("help")
        self.assertEqual(text, self.succeed("--help"))
        for verb in VERBS:
            self.assertRegex(text, rf"(?m)^  {verb} ")

    def test_every_verb_explains_itself_with_an_example(self):
        for verb in VERBS:
            with self.subTest(verb=verb):
                text = self.succeed("help", verb)
                self.assertTrue(text.startswith(f"Usage: ntpsim {verb} "), text)
                self.assertRegex(text, rf"(?m)^  ntpsim {verb} ")
                self.assertEqual(text, self.succeed(verb, "--help"))

    def test_no_verb_is_a_mistake_that_shows_the_verbs(self):
        stderr = self.refuse()
        for verb in VERBS:
            self.assertIn(f"  {verb} ", stderr)

    def test_version_says_version_and_revision(self):
        text = self.succeed("version")
        self.assertRegex(text, r"^ntpsim \d+\.\d+\.\d+ \((unknown|[0-9a-f]{7,40}(-dirty)?)\)\n$")
        self.assertEqual(text, self.succeed("--version"))
        project = re.search(r"project\(ntpsim VERSION (\S+)", (SOURCE / "CMakeLists.txt").read_text())
        self.assertIn(f"ntpsim {project.group(1)} ", text)


class MistakeTest(CliTest):
    def test_an_unknown_verb_is_refused_with_the_nearest(self):
        self.assertIn("did you mean 'run'?", self.refuse("rnu", "x.json"))
        self.assertIn("did you mean 'availability'?", self.refuse("availabilty"))
        self.assertIn("unknown verb 'frobnicate'", self.refuse("frobnicate"))
        self.assertIn("did you mean 'list'?", self.refuse("help", "lits"))

    def test_an_unknown_option_is_refused_with_the_nearest(self):
        for verb in ["run", "availability"]:
            self.assertIn("did you mean '--format'?", self.refuse(verb, "scenarios/small.json", "--fromat", "json"))
        self.assertIn("'--form'", self.refuse("run", "scenarios/small.json", "--form", "json"))

    def test_values_of_options_are_checked(self):
        for option, value, expected in [
            ("--format", "xml", "expected text, json or csv"),
            ("--threads", "0", "expected 1 to"),
            ("--threads", "-1", "--threads"),
            ("--threads", "many", "--threads"),
            ("--policies", "dp_drop,npt", "did you mean"),
            ("--policies", "", "policy"),
            ("--set", "horizon", "="),
        ]:
            with self.subTest(option=option, value=value):
                self.assertIn(expected, self.refuse("run", "scenarios/small.json", option, value))

    def test_missing_and_surplus_arguments_are_refused(self):
        self.assertIn("scenario", self.refuse("run"))
        self.refuse("run", "scenarios/small.json", "scenarios/small.json")
        self.refuse("run", "scenarios/small.json", "--format")
        self.assertIn("gpus", self.refuse("list"))
        self.assertIn("did you mean 'policies'?", self.refuse("list", "polices"))
        self.assertIn("scenario", self.refuse("schema", "results"))

    def test_output_that_cannot_be_written_is_a_failure(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([BINARY, "list", "gpus"], stdout=full, stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"standard output", done.stderr)


class ListTest(CliTest):
    def test_every_catalog_lists_the_same_names_as_text_and_json(self):
        for catalog in CATALOGS:
            with self.subTest(catalog=catalog):
                entries = json.loads(self.succeed("list", catalog, "--format", "json"))
                names = [entry["name"] for entry in entries]
                self.assertEqual(len(names), len(set(names)))
                rows = self.succeed("list", catalog).splitlines()
                listed = [row.split()[0] for row in rows if row.split()[0] in names]
                self.assertEqual(listed, names)

    def test_the_policies_are_those_promised(self):
        entries = json.loads(self.succeed("list", "policies", "--format", "json"))
        self.assertEqual([entry["name"] for entry in entries], POLICIES)

    def test_every_figure_of_the_catalogs_has_a_source(self):
        for catalog in ["gpus", "systems", "models"]:
            for entry in json.loads(self.succeed("list", catalog, "--format", "json")):
                self.assertTrue(entry["source"], entry)


class SchemaTest(CliTest):
    COMMITTED = SOURCE / "scenarios" / "schema" / "scenario.schema.json"

    def test_the_shipped_schema_is_the_program_s(self):
        self.assertEqual(self.succeed("schema", "scenario"), self.COMMITTED.read_text())

    def test_every_shipped_scenario_names_the_schema(self):
        scenarios = sorted((SOURCE / "scenarios").glob("*.json"))
        self.assertGreaterEqual(len(scenarios), 6)
        for path in scenarios:
            with self.subTest(path=path.name):
                named = json.loads(path.read_text())["$schema"]
                self.assertEqual((path.parent / named).resolve(), self.COMMITTED.resolve())


class SilenceTest(CliTest):
    def test_nothing_but_data_and_no_progress_when_stderr_is_no_terminal(self):
        outcome = run("run", "scenarios/small.json", "--format", "json")
        self.assertEqual((outcome.code, outcome.stderr), (0, ""), outcome)
        json.loads(outcome.stdout)


if __name__ == "__main__":
    unittest.main()
