"""Exact output, figures included: a change of any prediction shows here.

Set NTPSIM_UPDATE_GOLDEN=1 to write the files anew, and look at the difference before committing it.
"""

import os
import re
import unittest

from support import SOURCE, CliTest

GOLDEN = SOURCE / "tests" / "golden"
CASES = {
    "small.txt": ["run", "scenarios/small.json"],
    "small.csv": ["run", "scenarios/small.json", "--format", "csv"],
    "small.json": ["run", "scenarios/small.json", "--format", "json"],
    "small-fixed.txt": ["run", "scenarios/small.json", "--set", "minibatch=fixed", "--set", "replications=5"],
    "small-availability.txt": ["availability", "scenarios/small.json", "--failed-fractions", "0.01,0.05", "--draws",
                               "200"],
    "small-availability.csv": ["availability", "scenarios/small.json", "--failed-fractions", "0.01,0.05", "--draws",
                               "200", "--format", "csv"],
    "ntp-paper-32k.txt": ["run", "scenarios/ntp-paper-32k.json", "--set", "replications=10"],
    "plan-llama3.1-405b.txt": ["plan", "--model", "llama3.1-405b", "--tensor-model-parallel-size", "32", "--reduced", "31,30,28"],
    "plan-small.txt": ["plan", "scenarios/small.json", "--failed", "domain 3: gpu 4; domain 9: gpu 1"],
    "plan-small.json": ["plan", "scenarios/small.json", "--failed", "domain 3: gpu 4; domain 9: gpu 1", "--format", "json"],
    "plan-small-megatron.json": ["plan", "scenarios/small.json", "--failed", "domain 3: gpu 4; domain 9: gpu 1", "--format",
                                 "megatron"],
    "policies.txt": ["list", "policies"],
    "systems.txt": ["list", "systems"],
    "help.txt": ["help"],
}


def without_revision(text):
    """The commit that a program was built from is no prediction."""
    return re.sub(r'("git": )"[^"]*"', r'\1"REVISION"', text)


class GoldenTest(CliTest):
    def test_output_is_as_recorded(self):
        for name, args in CASES.items():
            with self.subTest(file=name):
                text = without_revision(self.succeed(*args))
                if os.environ.get("NTPSIM_UPDATE_GOLDEN"):
                    (GOLDEN / name).write_text(text)
                self.assertEqual(text, (GOLDEN / name).read_text())


if __name__ == "__main__":
    unittest.main()
