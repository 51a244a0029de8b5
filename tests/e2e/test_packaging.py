"""ntpsim::plan builds, installs and serves other projects alone, and the arrows between rooms hold."""

import os
import pathlib
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["NTPSIM_SOURCE_DIR"])
CONSUMER = SOURCE / "tests" / "consumer"


def command(*args):
    done = subprocess.run(
        list(map(str, args)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False
    )
    return done.returncode, done.stdout.decode()


class PackagingTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="ntpsim-packaging-")
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def succeed(self, *args):
        code, output = command(*args)
        self.assertEqual(code, 0, output)
        return output

    def configure(self, source, build, *options):
        self.succeed("cmake", "-G", "Ninja", "-S", source, "-B", build, "-DCMAKE_BUILD_TYPE=Release", *options)

    def run_consumer(self, *options):
        build = self.directory / "consumer"
        self.configure(CONSUMER, build, *options)
        self.succeed("cmake", "--build", build)
        self.assertIn("at most 5 on one", self.succeed(build / "consumer"))
        return build

    def test_an_installed_plan_serves_another_project(self):
        build, prefix = self.directory / "plan", self.directory / "prefix"
        self.configure(SOURCE, build, "-DNTPSIM_PLAN_ONLY=ON", f"-DCMAKE_INSTALL_PREFIX={prefix}")
        self.succeed("cmake", "--build", build)
        self.succeed("cmake", "--install", build)
        rooms = sorted(path.name for path in (prefix / "include" / "ntpsim").iterdir())
        self.assertEqual(rooms, ["core", "plan"])
        libraries = sorted(path.name for path in prefix.rglob("*.a"))
        self.assertEqual(libraries, ["libntpsim_core.a", "libntpsim_plan.a"])
        for config in prefix.rglob("*.cmake"):
            text = config.read_text()
            self.assertNotIn(str(SOURCE), text, f"{config} names the source tree")
            self.assertNotIn(str(build), text, f"{config} names the build tree")
        self.run_consumer(f"-DCMAKE_PREFIX_PATH={prefix}")

    def test_plan_serves_as_a_subdirectory_and_does_not_see_the_sim_room(self):
        build = self.run_consumer(f"-DNTPSIM_SOURCE={SOURCE}")
        code, output = command("cmake", "--build", build, "--target", "includes_sim")
        self.assertNotEqual(code, 0, "a file that links only ntpsim::plan compiled with a header of ntpsim::sim")
        self.assertRegex(output, "ntpsim/sim/specs.h: No such file")

    def refuse_room(self, room, reason):
        project = self.directory / "wrong"
        project.mkdir()
        (project / "empty.cc").write_text("")
        (project / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\n"
            "project(wrong LANGUAGES CXX)\n"
            "include(GNUInstallDirs)\n"
            f"include({SOURCE}/cmake/NtpsimTargets.cmake)\n"
            f"{room}\n"
        )
        code, output = command("cmake", "-G", "Ninja", "-S", project, "-B", project / "build")
        self.assertNotEqual(code, 0, output)
        self.assertIn(reason, " ".join(output.split()))

    def test_a_room_that_links_against_the_arrows_is_refused(self):
        self.refuse_room(
            "ntpsim_room(plan SOURCES empty.cc ROOMS core sim)", "room plan must not depend on room sim"
        )

    def test_a_room_cannot_be_linked_past_the_arrows(self):
        self.refuse_room(
            "ntpsim_room(plan SOURCES empty.cc ROOMS core PRIVATE ntpsim::sim)", "name the room sim under ROOMS"
        )


if __name__ == "__main__":
    unittest.main()
