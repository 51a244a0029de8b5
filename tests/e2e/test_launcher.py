"""The launcher ./ntpsim and tools/install-packages, tried on a small tree of their own with stand-ins for apt and dpkg."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

SOURCE = pathlib.Path(os.environ["NTPSIM_SOURCE_DIR"])

# A program that shows how it was called, built by copying a script.
CMAKE_PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(stand_in LANGUAGES NONE)
add_custom_command(OUTPUT bin/ntpsim DEPENDS src/program
  COMMAND ${CMAKE_COMMAND} -E copy ${CMAKE_SOURCE_DIR}/src/program bin/ntpsim)
add_custom_target(stand_in ALL DEPENDS bin/ntpsim)
enable_testing()
add_test(NAME trial COMMAND ${CMAKE_SOURCE_DIR}/tests/trial)
"""
PRESETS = """
{
  "version": 6,
  "configurePresets": [
    { "name": "release", "generator": "Ninja", "binaryDir": "${sourceDir}/build/release" },
    { "name": "dev", "generator": "Ninja", "binaryDir": "${sourceDir}/build/dev" }
  ],
  "buildPresets": [
    { "name": "release", "configurePreset": "release" },
    { "name": "dev", "configurePreset": "dev" }
  ],
  "testPresets": [{ "name": "dev", "configurePreset": "dev" }]
}
"""
PROGRAM = r"""#!/bin/sh
echo "program $PWD $LC_ALL $(umask)"
for arg; do echo "arg $arg"; done
exit 7
"""


class LauncherTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="ntpsim-launcher-")
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name).resolve()
        self.tree = self.directory / "a tree"
        (self.tree / "src").mkdir(parents=True)
        (self.tree / "cmake").mkdir()
        (self.tree / "include").mkdir()
        (self.tree / "tests").mkdir()
        (self.tree / "bench").mkdir()
        shutil.copytree(SOURCE / "tools", self.tree / "tools")
        shutil.copy(SOURCE / "ntpsim", self.tree)
        self.write("CMakeLists.txt", CMAKE_PROJECT)
        self.write("CMakePresets.json", PRESETS)
        self.write("src/program", PROGRAM, mode=0o755)

    def write(self, name, text, mode=0o644):
        path = self.tree / name
        path.write_text(text)
        path.chmod(mode)

    def launch(self, *args, program=None, cwd=None, env=None, umask=0o022):
        done = subprocess.run(
            [str(program or self.tree / "ntpsim"), *args],
            cwd=cwd or self.directory,
            env={**os.environ, "NTPSIM_NO_INSTALL": "1", **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=120,
            umask=umask,
            check=False,
        )
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def age_sources(self):
        """Makes everything in the tree older than the last build, as it is when some time has passed."""
        past = time.time() - 3600
        for path in [self.tree, *self.tree.rglob("*")]:
            if "build" not in path.relative_to(self.tree).parts:
                os.utime(path, (past, past))

    def build(self):
        code, _, stderr = self.launch()
        self.assertEqual(code, 7, stderr)
        self.assertIn("building", stderr)
        self.age_sources()

    def test_builds_then_hands_over_arguments_directory_environment_and_status(self):
        code, stdout, stderr = self.launch(
            "run", "a b.json", "", "--x=*", cwd=self.directory, env={"LC_ALL": "de_DE"}, umask=0o077
        )
        self.assertEqual(code, 7, stderr)
        self.assertEqual(
            stdout, f"program {self.directory} de_DE 0077\narg run\narg a b.json\narg \narg --x=*\n", stderr
        )
        self.assertIn("building 'release'", stderr)

    def test_an_unchanged_tree_is_run_as_it_is(self):
        self.build()
        code, stdout, stderr = self.launch("x")
        self.assertEqual((code, stderr), (7, ""))
        self.assertIn("arg x", stdout)

    def test_works_through_a_symlink(self):
        self.build()
        link = self.directory / "elsewhere"
        link.symlink_to(self.tree / "ntpsim")
        code, stdout, stderr = self.launch("x", program=link)
        self.assertEqual((code, stderr), (7, ""))
        self.assertIn("arg x", stdout)

    def test_an_edited_an_added_and_a_deleted_source_are_noticed(self):
        self.build()
        self.write("src/program", PROGRAM.replace("arg $arg", "edited $arg"), mode=0o755)
        code, stdout, stderr = self.launch("x")
        self.assertEqual(code, 7, stderr)
        self.assertIn("edited x", stdout)
        self.age_sources()
        self.write("include/new.h", "")
        self.assertIn("building", self.launch()[2])
        self.age_sources()
        (self.tree / "include" / "new.h").unlink()
        self.assertIn("building", self.launch()[2])

    def test_the_tests_are_built_anew_when_they_change_and_their_status_is_passed_on(self):
        self.write("tests/trial", "#!/bin/sh\nexit 0\n", mode=0o755)
        code, stdout, stderr = self.launch("test")
        self.assertEqual(code, 0, stderr)
        self.assertIn("100% tests passed", stdout)
        self.age_sources()
        self.assertNotIn("building", self.launch("test", "--preset", "dev")[2])
        self.write("tests/trial", "#!/bin/sh\nexit 1\n", mode=0o755)
        code, stdout, stderr = self.launch("test", "--preset=dev", "-R", "trial")
        self.assertEqual(code, 8, stderr)
        self.assertIn("building 'dev'", stderr)
        self.assertIn("1 tests failed out of 1", stdout)

    def test_a_commit_is_noticed(self):
        self.build()
        (self.tree / ".git" / "logs").mkdir(parents=True)
        self.write(".git/logs/HEAD", "")
        self.assertIn("building", self.launch()[2])

    def test_a_moved_tree_is_built_afresh(self):
        self.build()
        moved = self.directory / "moved"
        self.tree.rename(moved)
        self.tree = moved
        self.write("src/program", PROGRAM.replace("arg $arg", "moved $arg"), mode=0o755)
        code, stdout, stderr = self.launch("x")
        self.assertEqual(code, 7, stderr)
        self.assertIn("moved x", stdout)

    def test_a_failed_build_shows_the_end_of_the_log_and_leaves_stdout_alone(self):
        self.write("CMakeLists.txt", CMAKE_PROJECT + 'message(FATAL_ERROR "out of luck")\n')
        for _ in range(2):
            code, stdout, stderr = self.launch("x")
            self.assertEqual((code, stdout), (3, ""))
            self.assertIn("out of luck", stderr)
            self.assertIn("build.log", stderr)

    def test_a_program_that_stopped_building_is_not_run_in_its_old_form(self):
        self.build()
        self.write("CMakeLists.txt", "broken(")
        code, stdout, _ = self.launch("x")
        self.assertEqual((code, stdout), (3, ""))

    def test_two_callers_build_once(self):
        callers = [
            subprocess.Popen(
                [str(self.tree / "ntpsim"), "x"],
                env={**os.environ, "NTPSIM_NO_INSTALL": "1"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for _ in range(3)
        ]
        outputs = [caller.communicate(timeout=120) for caller in callers]
        self.assertEqual([caller.returncode for caller in callers], [7, 7, 7], outputs)
        said = b"".join(stderr for _, stderr in outputs).decode()
        self.assertEqual(said.count("building 'release'"), 1, said)


class PackagesTest(unittest.TestCase):
    """tools/install-packages with stand-ins for dpkg-query and apt-get."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="ntpsim-packages-")
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.bin = self.directory / "bin"
        self.bin.mkdir()
        self.calls = self.directory / "calls"
        self.calls.write_text("")
        for name in ["bash", "dirname", "mktemp", "readlink", "rm", "tail"]:
            (self.bin / name).symlink_to(shutil.which(name))

    def stand_in(self, name, script):
        path = self.bin / name
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(0o755)

    def installed(self, *packages):
        cases = "|".join(packages) or "none"
        self.stand_in("dpkg-query", f"for p; do :; done; case $p in {cases}) printf installed;; *) exit 1;; esac\n")

    def apt_get(self, status):
        self.stand_in("apt-get", f'echo "$* [$DEBIAN_FRONTEND]" >>"{self.calls}"; echo "apt says"; exit {status}\n')

    def install(self, *lists, env=None):
        done = subprocess.run(
            [str(SOURCE / "tools" / "install-packages"), *lists],
            env={"PATH": str(self.bin), **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
        self.assertEqual(done.stdout, b"")
        return done.returncode, done.stderr.decode()

    def packages(self, name):
        lines = (SOURCE / "tools" / "packages" / f"{name}.txt").read_text().splitlines()
        return [line.split()[0] for line in lines if line and not line.startswith("#")]

    def test_says_nothing_when_all_is_there(self):
        self.installed(*self.packages("run"), *self.packages("test"))
        self.apt_get(0)
        self.assertEqual(self.install("run", "test"), (0, ""))
        self.assertEqual(self.calls.read_text(), "")

    @unittest.skipUnless(os.geteuid() == 0, "only root installs packages")
    def test_installs_what_is_missing_without_asking_and_says_so(self):
        packages = self.packages("run")
        self.installed(*packages[2:])
        self.apt_get(0)
        code, stderr = self.install("run")
        self.assertEqual(code, 0, stderr)
        self.assertIn(f"lacks: {packages[0]} {packages[1]}\n", stderr)
        update, install = self.calls.read_text().splitlines()
        self.assertIn("update", update)
        self.assertIn("--yes --no-install-recommends", install)
        self.assertTrue(install.endswith(f"{packages[0]} {packages[1]} [noninteractive]"), install)

    def test_names_what_is_missing_where_it_cannot_be_installed(self):
        packages = self.packages("run")
        self.installed(*packages[1:])
        code, stderr = self.install("run")
        self.assertEqual(code, 3, stderr)
        self.assertTrue(stderr.endswith(f": {packages[0]}\n"), stderr)

    def test_names_everything_on_a_system_that_is_not_debian(self):
        code, stderr = self.install("run")
        self.assertEqual(code, 3, stderr)
        self.assertTrue(stderr.endswith(": " + " ".join(self.packages("run")) + "\n"), stderr)

    @unittest.skipUnless(os.geteuid() == 0, "only root installs packages")
    def test_shows_what_apt_said_when_it_fails(self):
        self.installed()
        self.apt_get(100)
        code, stderr = self.install("run")
        self.assertEqual(code, 3, stderr)
        self.assertIn("apt says", stderr)

    def test_can_be_told_to_stay_out_of_it(self):
        self.assertEqual(self.install("run", env={"NTPSIM_NO_INSTALL": "1"}), (0, ""))


if __name__ == "__main__":
    unittest.main()
