"""What the end-to-end tests share: running the program as a user does, and scenarios to run it on."""

import copy
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

BINARY = os.environ["NTPSIM_BIN"]
SOURCE = pathlib.Path(os.environ["NTPSIM_SOURCE_DIR"])
SMALL = SOURCE / "scenarios" / "small.json"


class Outcome:
    """What a command left behind."""

    def __init__(self, code, stdout, stderr):
        self.code = code
        self.stdout = stdout
        self.stderr = stderr

    def __str__(self):
        return f"exit {self.code}\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"


def run(*args, env=None, cwd=SOURCE, stdin="", program=BINARY, timeout=300):
    """Runs the program; `env` is added to the environment. Never a terminal, so never any progress."""
    done = subprocess.run(
        [str(program), *map(str, args)],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        capture_output=True,
        timeout=timeout,
        check=False,
    )
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())


class CliTest(unittest.TestCase):
    """A test with a directory of its own for files, and checks that show the whole outcome when they fail."""

    maxDiff = None

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="ntpsim-e2e-")
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def succeed(self, *args, **options):
        """Runs the program, which must end well, and gives its stdout."""
        outcome = run(*args, **options)
        self.assertEqual(outcome.code, 0, outcome)
        return outcome.stdout

    def succeed_json(self, *args, **options):
        return json.loads(self.succeed(*args, "--format", "json", **options))

    def refuse(self, *args, **options):
        """Runs the program, which must refuse its input: exit status 2, nothing on stdout. Gives its stderr."""
        outcome = run(*args, **options)
        self.assertEqual(outcome.code, 2, outcome)
        self.assertEqual(outcome.stdout, "", outcome)
        return outcome.stderr

    def small_scenario(self):
        """The small shipped scenario as a dictionary of one's own."""
        return copy.deepcopy(json.loads(SMALL.read_text()))

    def write(self, name, content):
        """Writes text, bytes or a JSON value to a file in the test's directory and gives its path."""
        path = self.directory / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif isinstance(content, str):
            path.write_text(content)
        else:
            path.write_text(json.dumps(content, indent=2))
        return path
