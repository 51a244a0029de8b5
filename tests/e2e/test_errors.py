"""Bad input: each kind with its clear error, all violations at once, exit status 2, nothing on stdout."""

import json
import os
import subprocess
import unittest

from support import BINARY, SMALL, CliTest, run


class BadInputTest(CliTest):
    def refuse_with(self, change, *expected):
        """The small scenario, changed by `change`, must be refused with an error line that holds all of `expected`."""
        scenario = self.small_scenario()
        change(scenario)
        path = self.write("bad.json", scenario)
        stderr = self.refuse("run", path)
        lines = [line for line in stderr.splitlines() if all(part in line for part in expected)]
        self.assertTrue(lines, f"no line has all of {expected} in\n{stderr}")
        for line in lines:
            self.assertTrue(line.startswith(f"error: {path}: "), line)
        return stderr

    def test_an_unknown_key_is_named_with_the_nearest(self):
        self.refuse_with(
            lambda s: s["training"].update(tensor_model_paralel_size=8),
            "/training/tensor_model_paralel_size",
            "tensor_model_parallel_size",
        )
        self.refuse_with(lambda s: s.update(chekpoint={}), "/chekpoint", "checkpoint")

    def test_an_unknown_catalog_name_is_named_with_the_nearest(self):
        self.refuse_with(lambda s: s.update(policies=["npt"]), "/policies/0", "ntp")
        self.refuse_with(lambda s: s.update(model="lama3-70b"), "/model", "llama3-70b")
        self.refuse_with(lambda s: s.update(cluster={"system": "dgx-h10", "gpus": 8}), "/cluster/system", "dgx-h100")

    def test_a_missing_key_is_named(self):
        self.refuse_with(lambda s: s.pop("horizon"), "/horizon", "missing")
        self.refuse_with(lambda s: s["training"].pop("global_batch_size"), "/training/global_batch_size", "missing")

    def test_a_missing_and_an_unknown_unit_are_named(self):
        self.refuse_with(lambda s: s.update(horizon="30"), "/horizon", "'30' has no unit", " d")
        self.refuse_with(lambda s: s.update(horizon=30), "/horizon")
        self.refuse_with(lambda s: s.update(horizon="3 dys"), "/horizon", "dys")
        self.refuse_with(lambda s: s["cluster"].update(nic_bandwidth="400 Gb/s"), "/cluster/nic_bandwidth", "Gbit/s")

    def test_zero_and_negative_sizes_are_refused(self):
        for section, key in [
            ("cluster", "gpus"),
            ("training", "tensor_model_parallel_size"),
            ("training", "pipeline_model_parallel_size"),
            ("training", "micro_batch_size"),
            ("training", "global_batch_size"),
            ("training", "seq_length"),
        ]:
            for value in [0, -8]:
                with self.subTest(key=key, value=value):
                    self.refuse_with(lambda s: s[section].update({key: value}), f"/{section}/{key}", str(value))
        self.refuse_with(lambda s: s.update(replications=0), "/replications", "0")
        self.refuse_with(lambda s: s.update(horizon="-3 d"), "/horizon", "-3 d")
        self.refuse_with(lambda s: s["checkpoint"].update(interval="0 s"), "/checkpoint/interval", "0 s")

    def test_numbers_of_the_wrong_kind_are_refused(self):
        for value in [8.5, "8", True, None, [8], {"a": 8}, 1e300, 2**63]:
            with self.subTest(value=value):
                self.refuse_with(lambda s: s["training"].update(seq_length=value), "/training/seq_length")

    def test_gpus_that_the_degrees_do_not_divide_are_refused(self):
        self.refuse_with(lambda s: s["training"].update(pipeline_model_parallel_size=7), "/cluster/gpus", "128 GPUs", "8 x 7 x 1")

    def test_a_tp_degree_above_the_domain_is_refused(self):
        size = 1024
        self.refuse_with(
            lambda s: s["training"].update(tensor_model_parallel_size=size),
            "/training/tensor_model_parallel_size",
            str(size),
            "domain",
        )

    def test_a_batch_that_microbatches_do_not_divide_is_refused(self):
        self.refuse_with(lambda s: s["training"].update(global_batch_size=1009), "/training", "1009")

    def test_all_violations_are_reported_at_once(self):
        def spoil(scenario):
            scenario["horizon"] = "30"
            scenario["sede"] = 1
            scenario["training"]["seq_length"] = -1
            scenario["cluster"]["gpus"] = 0
            scenario["policies"] = ["dp_drop", "npt"]

        scenario = self.small_scenario()
        spoil(scenario)
        stderr = self.refuse("run", self.write("bad.json", scenario))
        for pointer in ["/horizon", "/sede", "/training/seq_length", "/cluster/gpus", "/policies/1"]:
            self.assertRegex(stderr, rf"(?m)^error: .*bad\.json: {pointer}: ")

    def test_absurd_hardware_and_work_are_refused(self):
        self.refuse_with(lambda s: s["cluster"].update(nic_bandwidth="1e-3 B/s"), "/cluster/nic_bandwidth")
        self.refuse_with(lambda s: s["training"].update(global_batch_size=6_400_000), "/training: one step of the healthy job")
        self.refuse_with(lambda s: s.update(replications=1_000_000, horizon="10 y"), "/replications: would simulate about")
        self.refuse_with(lambda s: s["policies"][2].update(spare_domains=2_600_000), "/policies", "lower spare_domains")
        self.refuse_with(lambda s: s.update(policies=["ntp"] * 33), "/policies", "at most 32 entries")

    def test_what_users_wrote_is_cut_and_cannot_steer_the_terminal(self):
        for text in ["\x1b[31m" + "x" * 10_000, "\r\n" * 1000]:
            stderr = self.refuse_with(lambda s: s.update({"name": text, text: 1, "minibatch": text, "horizon": text}), "error")
            for line in stderr.splitlines():
                self.assertLess(len(line), 600)
                self.assertTrue(line.isprintable(), repr(line))

    def test_many_unknown_keys_are_counted(self):
        stderr = self.refuse_with(lambda s: s.update({f"k{i}": 1 for i in range(100_000)}), "unknown key")
        self.assertEqual(len(stderr.splitlines()), 51)
        self.assertIn("and 99950 more unknown keys", stderr)

    def test_a_label_is_suggested(self):
        scenario = self.small_scenario()
        scenario["policies"] = [{"name": "ntp", "label": "wide spares"}]
        stderr = self.refuse("run", self.write("label.json", scenario), "--policies", "wide spare")
        self.assertIn('did you mean "wide spares"?', stderr)

    def test_the_same_errors_under_every_verb(self):
        scenario = self.small_scenario()
        scenario["sede"] = 1
        path = self.write("bad.json", scenario)
        self.assertEqual(self.refuse("run", path), self.refuse("availability", path))


class BadFileTest(CliTest):
    def test_truncated_json_says_where(self):
        path = self.write("cut.json", '{\n  "name": "cut",\n  "cluster": {"gpus": 8')
        stderr = self.refuse("run", path)
        self.assertIn(str(path), stderr)
        self.assertRegex(stderr, r"line 3, column \d+")

    def test_text_that_is_no_json_is_refused(self):
        for name, content in [
            ("empty.json", ""),
            ("blank.json", " \n"),
            ("word.json", "hello"),
            ("list.json", "[]"),
            ("number.json", "7"),
            ("null.json", "null"),
            ("two.json", "{} {}"),
            ("nan.json", '{"horizon": NaN}'),
            ("huge.json", '{"replications": 1e400}'),
            ("binary.json", bytes(range(256))),
            ("utf16.json", '{"name": "x"}'.encode("utf-16")),
            ("utf8.json", b'{"name": "\xff\xfe"}'),
            ("deep.json", "[" * 200_000),
            ("deep_object.json", '{"a":' * 100_000 + "1" + "}" * 100_000),
            ("nul.json", '{"seed": 1}\n\0{}'),
            ("twice.json", '{"seed": 1, "seed": 2}'),
        ]:
            with self.subTest(name=name):
                path = self.write(name, content)
                self.assertIn(str(path), self.refuse("run", path))

    def test_a_file_that_cannot_be_read_is_named(self):
        for path in [self.directory / "absent.json", self.directory]:
            stderr = self.refuse("run", path)
            self.assertRegex(stderr, rf"^error: {path}: ")

    def test_standard_input_that_cannot_be_read_is_refused(self):
        directory = os.open(self.directory, os.O_RDONLY)
        self.addCleanup(os.close, directory)
        done = subprocess.run([BINARY, "run", "-"], stdin=directory, capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertIn(b"cannot read it: Is a directory", done.stderr)
        done = subprocess.run(["sh", "-c", 'exec "$0" run - <&-', BINARY], capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertIn(b"cannot read it: Bad file descriptor", done.stderr)
        self.assertIn("larger than 64 MiB", self.refuse("run", "-", stdin=b" " * (65 << 20)))

    def test_an_empty_name_is_shown(self):
        self.assertTrue(self.refuse("run", "").startswith("error: '': cannot read it"))

    @unittest.skipIf(os.geteuid() == 0, "root may read any file")
    def test_a_file_without_permission_is_named(self):
        path = self.write("secret.json", "{}")
        path.chmod(0)
        self.assertIn(str(path), self.refuse("run", path))

    def test_extreme_numbers_do_not_crash(self):
        for value in ["1e400", "-1e400", "1e308", "1e-400", "18446744073709551616", "-9223372036854775808", "0.1e-310"]:
            for key in ["replications", "horizon", "seed", "minibatch", "cluster", "policies", "failures"]:
                with self.subTest(key=key, value=value):
                    text = json.dumps({**self.small_scenario(), key: "HERE"}).replace('"HERE"', value)
                    self.refuse("run", self.write("extreme.json", text))
                    self.refuse("run", SMALL, "--set", f"{key}={value}")

    def test_quantities_out_of_range_do_not_crash(self):
        for value in ["1e400 s", "1e300 y", "nan s", "inf s", "-inf d", "1e-400 s", "0x10 s"]:
            with self.subTest(value=value):
                self.assertIn("/horizon", self.refuse("run", SMALL, "--set", f"horizon={value}"))


class HuggingFaceTest(CliTest):
    COMPLETE = {
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }

    def scenario_with(self, config):
        self.write("config.json", config)
        scenario = self.small_scenario()
        scenario["model"] = "config.json"
        return self.write("scenario.json", scenario)

    def test_a_complete_config_beside_the_scenario_is_read(self):
        result = self.succeed_json("run", self.scenario_with(self.COMPLETE), "--set", "replications=2")
        self.assertEqual(result["scenario"]["model"]["num_layers"], 32)

    def test_missing_keys_are_all_named(self):
        config = {key: value for key, value in self.COMPLETE.items() if key not in ("hidden_size", "num_hidden_layers")}
        stderr = self.refuse("run", self.scenario_with(config))
        self.assertRegex(stderr, r"(?m)^error: .*config\.json: .*hidden_size")
        self.assertRegex(stderr, r"(?m)^error: .*config\.json: .*num_hidden_layers")

    def test_an_unknown_family_is_named(self):
        stderr = self.refuse("run", self.scenario_with({**self.COMPLETE, "model_type": "mamba"}))
        self.assertIn("mamba", stderr)
        self.assertIn("llama", stderr)

    def test_an_absent_config_is_named(self):
        scenario = self.small_scenario()
        scenario["model"] = "nowhere/config.json"
        stderr = self.refuse("run", self.write("scenario.json", scenario))
        self.assertIn("nowhere/config.json", stderr)
        self.assertRegex(stderr, r"(?m)^error: .*scenario\.json: /model: names the model file")


class RunnerTest(CliTest):
    def test_nothing_is_written_beside_the_output(self):
        path = self.write("scenario.json", self.small_scenario())
        outcome = run("run", path, cwd=self.directory)
        self.assertEqual(outcome.code, 0, outcome)
        self.assertEqual([entry.name for entry in self.directory.iterdir()], ["scenario.json"])


if __name__ == "__main__":
    unittest.main()
