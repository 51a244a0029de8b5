"""Every ntpsim command that README.md and docs/*.md show in a ```sh block runs.

Left out are the launcher's own verbs (test, bench, check), which build, and blocks marked ```sh skip.
"""

import os
import re
import shlex
import subprocess
import unittest

from support import BINARY, SOURCE, CliTest

LAUNCHER_VERBS = {"test", "bench", "check"}


def commands(text):
    """The ntpsim command lines of the sh blocks, continued lines joined."""
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words and words[0] == "./ntpsim" and words[1:2] and words[1] not in LAUNCHER_VERBS:
                yield line


class ReadmeTest(CliTest):
    def test_every_command_runs(self):
        documents = [SOURCE / "README.md", *sorted((SOURCE / "docs").glob("*.md"))]
        shown = [(path.name, line) for path in documents for line in commands(path.read_text())]
        self.assertTrue([line for name, line in shown if name == "README.md"], "README.md shows no command")
        # Files that a command writes land in the test's directory; what it reads is reached through links.
        for entry in SOURCE.iterdir():
            if entry.name not in ("build", ".git"):
                (self.directory / entry.name).symlink_to(entry)
        (self.directory / "ntpsim").unlink()
        (self.directory / "ntpsim").symlink_to(BINARY)
        for name, line in shown:
            with self.subTest(document=name, command=line):
                done = subprocess.run(
                    ["bash", "-euo", "pipefail", "-c", line],
                    cwd=self.directory,
                    env={**os.environ},
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=300,
                    check=False,
                )
                self.assertEqual(done.returncode, 0, done.stderr.decode())


    def test_output_shown_under_a_command_is_what_it_prints(self):
        text = (SOURCE / "README.md").read_text()
        shown = re.findall(r"^```sh\n([^\n]+)\n```\n+```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        self.assertTrue(shown, "README.md shows no output")
        for line, output in shown:
            with self.subTest(command=line):
                self.assertEqual(self.succeed(*shlex.split(line)[1:]), output)


if __name__ == "__main__":
    unittest.main()
