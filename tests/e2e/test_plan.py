"""ntpsim plan: layouts that cut every tensor, groups that partition the ranks, and files for Megatron and Slurm."""

import json
import unittest

from support import SMALL, SOURCE, CliTest, run

LLAMA = ["plan", "--model", "llama3.1-405b", "--tensor-model-parallel-size", 32]
PAPER = SOURCE / "scenarios" / "ntp-paper-32k.json"


class ModelPlanTest(CliTest):
    def test_every_tensor_has_the_promised_keys_and_adds_up(self):
        result = self.succeed_json(*LLAMA, "--reduced", "31,30,28")
        self.assertEqual(result["schema_version"], 1)
        self.assertEqual(result["summary"]["degrees"], [32, 31, 30, 28])
        self.assertEqual(result["summary"]["sync_degree"], 28)
        for tensor in result["tensors"]:
            with self.subTest(tensor=tensor["name"], degree=tensor["degree"]):
                self.assertGreaterEqual(tensor["load"], 1)
                self.assertGreaterEqual(tensor["gap"], 0)
                most = max(tensor["send_bytes_max"], tensor["recv_bytes_max"])
                self.assertGreaterEqual(most, tensor["lower_bound_bytes"])
                self.assertEqual(tensor["total_bytes"] % tensor["unit_bytes"], 0)
                if not tensor["copied"]:
                    ceiling = -(-tensor["units"] // tensor["degree"])
                    self.assertEqual(tensor["max_units_per_rank"], ceiling)
                    self.assertEqual(most, tensor["lower_bound_bytes"])
        for degree in result["summary"]["by_degree"]:
            total = sum(
                tensor["total_bytes"] * tensor["layers"]
                for tensor in result["tensors"]
                if tensor["degree"] == degree["degree"]
            )
            self.assertEqual(degree["total_bytes"], total)

    def test_layouts_own_every_unit_once_and_transfers_lead_from_one_to_the_other(self):
        layouts = self.succeed_json(*LLAMA, "--reduced", "31,30")["layouts"]
        for layout in (layout for layout in layouts if "compute" in layout):
            with self.subTest(unit=layout["unit"], degree=layout["degree"]):
                owners = {}
                for side in ("compute", "sync"):
                    owner = [None] * layout["units"]
                    for rank, ranges in enumerate(layout[side]):
                        for begin, end in ranges:
                            self.assertEqual(owner[begin:end], [None] * (end - begin))
                            owner[begin:end] = [rank] * (end - begin)
                    self.assertNotIn(None, owner)
                    owners[side] = owner
                for transfer in layout["pre_sync"]:
                    begin, end = transfer["units"]
                    for unit in range(begin, end):
                        self.assertEqual(owners["compute"][unit], transfer["from"])
                        owners["compute"][unit] = transfer["to"]
                self.assertEqual(owners["compute"], owners["sync"])

    def test_copies_of_kv_groups_pass_along_chains_that_end_where_the_group_is_synced(self):
        result = self.succeed_json(*LLAMA, "--reduced", "30")
        layouts = result["layouts"]
        heads = {l["degree"]: l for l in layouts if l["unit"] == "query head"}
        for layout in (layout for layout in layouts if "copies" in layout):
            with self.subTest(degree=layout["degree"]):
                for group in range(8):
                    holders = {
                        rank for rank, ranges in enumerate(layout["copies"]) if any(b <= group < e for b, e in ranges)
                    }
                    chain = [t for t in layout["chains"] if t["units"] == [group, group + 1]]
                    home = chain[-1]["to"]
                    first_head = 16 * group
                    sync = heads[layout["degree"]]["sync"]
                    self.assertTrue(any(b <= first_head < e for b, e in sync[home]))
                    self.assertEqual(holders | {home}, {t["from"] for t in chain} | {home})
                    self.assertEqual([t["to"] for t in chain[:-1]], [t["from"] for t in chain[1:]])

    def test_a_hugging_face_config_is_a_model(self):
        config = {
            "model_type": "llama",
            "hidden_size": 1024,
            "intermediate_size": 4096,
            "num_hidden_layers": 4,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "vocab_size": 32000,
        }
        path = self.write("config.json", config)
        result = self.succeed_json("plan", "--model", path, "--tensor-model-parallel-size", 4, "--reduced", 3)
        units = {tensor["name"]: tensor["units"] for tensor in result["tensors"]}
        self.assertEqual(units["self_attention.linear_qkv"], 8)
        self.assertEqual(units["mlp.linear_fc1"], 4096)

    def test_the_same_plan_has_the_same_bytes_and_timings_are_extra(self):
        plain = self.succeed(*LLAMA, "--reduced", 30, "--format", "json")
        self.assertEqual(plain, self.succeed(*LLAMA, "--reduced", 30, "--format", "json"))
        timed = run(*LLAMA, "--reduced", 30, "--format", "json", "--timings")
        self.assertEqual(timed.code, 0, timed)
        self.assertIn("tensors: ", timed.stderr)
        with_seconds = json.loads(timed.stdout)
        self.assertGreater(with_seconds.pop("planning_s")["tensors"], 0)
        self.assertEqual(with_seconds, json.loads(plain))

    def test_text_draws_who_holds_what(self):
        text = self.succeed(*LLAMA, "--reduced", 30)
        self.assertRegex(text, r"(?m)^ +0  0-3 +####\+ +0-3, 120 +1 from 30$")
        self.assertRegex(text, r"(?m)^ +30  120-123 +---- +- +1 to 0 and 3 more$")

    def test_megatron_keys_of_a_job_without_a_cluster(self):
        config = json.loads(
            self.succeed("plan", "--model", "llama3-8b", "--tensor-model-parallel-size", 4, "--reduced", 2, "--format", "megatron")
        )
        self.assertEqual(config["tp_base"], 4)
        self.assertEqual(config["tp_spares"], 2)
        self.assertEqual(config["num_reduced_tp_dp_ranks"], 1)
        self.assertEqual(config["non_active_ranks_per_dp"], {"0,0,0": [2, 3]})
        self.assertEqual(config["tensor_model_parallel_groups"], [[0, 1], [2, 3, 4, 5]])
        self.assertEqual(config["data_parallel_groups"], [[0, 2], [1, 3], [4], [5]])
        self.assertNotIn("hostfile", config)


class ScenarioPlanTest(CliTest):
    def config(self, *args):
        return json.loads(self.succeed("plan", *args, "--format", "megatron"))

    def test_megatron_config_of_two_hurt_domains(self):
        config = self.config(PAPER, "--failed", "domain 3: gpu 4,7; domain 11: gpu 0")
        self.assertEqual(config["tp_base"], 32)
        self.assertEqual(config["tp_spares"], 2)
        self.assertEqual(config["num_reduced_tp_dp_ranks"], 1)
        slots = config["non_active_ranks_per_dp"]
        self.assertEqual(sorted(slots), sorted(f"0,0,{pp}" for pp in range(8)))
        self.assertEqual(sorted(slots.values()).count([4, 7]), 1)
        self.assertTrue(all(len(local) == 2 for local in slots.values()))
        self.assertEqual(config["tp_domain_sizes"], [30] + [32] * 127)
        world = config["world_size"]
        self.assertEqual(world, 8 * (30 + 127 * 32))
        for kind in ("tensor_model_parallel", "context_parallel", "data_parallel", "pipeline_model_parallel"):
            ranks = [rank for group in config[f"{kind}_groups"] for rank in group]
            self.assertEqual(sorted(ranks), list(range(world)), kind)

    def test_no_rank_is_on_a_failed_gpu(self):
        config = self.config(SMALL, "--failed", "domain 3: gpu 4; domain 5: gpu 0-2", "--policy", "dp_drop")
        used = list(zip(config["hostfile"], config["cuda_visible_devices"]))
        self.assertEqual(len(used), len(set(used)))
        self.assertEqual(len(used), config["world_size"])
        for domain, gpu in [(3, 4), (5, 0), (5, 1), (5, 2)]:
            self.assertNotIn((f"node{domain:05}", gpu), used)

    def test_the_hostfile_names_the_machine_of_every_rank(self):
        names = self.directory / "names"
        names.write_text("".join(f"gpu-{i}\n" for i in range(16)))
        args = [SMALL, "--failed", "domain 3: gpu 4", "--hosts", names]
        hosts = self.succeed("plan", *args, "--format", "hostfile").splitlines()
        self.assertEqual(hosts, self.config(*args)["hostfile"])
        self.assertEqual(hosts.count("gpu-3"), 7)
        devices = self.succeed("plan", *args, "--format", "devices").splitlines()
        self.assertEqual([int(gpu) for gpu in devices], self.config(*args)["cuda_visible_devices"])

    def test_placement_accounts_for_every_gpu(self):
        result = self.succeed_json("plan", SMALL, "--failed", "domain 3: gpu 4; domain 9: gpu 1,2", "--policy", "ntp")
        placement = result["placement"]
        at_work = sum(len(group["slots"]) for replica in placement["replicas"] for group in replica["groups"])
        failed = sum(len(domain["slots"]) for domain in placement["failed"])
        self.assertEqual(at_work, placement["world_size"])
        self.assertEqual(at_work + failed + len(placement["idle"]), 128)

    def test_no_gpu_moves_more_state_than_it_can_hold(self):
        result = self.succeed_json("plan", SMALL, "--failed", "domain 3: gpu 4; domain 9: gpu 1,2")
        weights = 70.6e9 * 2 / 2 / 8 * 1.2  # PP 2, TP 8, and some for uneven layers
        for change in result["state_change"]:
            for network in ("within_domains", "across_domains"):
                traffic = change[network]
                self.assertLessEqual(traffic["lower_bound_bytes"], traffic["bottleneck_bytes"])
                self.assertLessEqual(traffic["bottleneck_bytes"], traffic["total_bytes"])
                most = weights if change["what"] == "weights" else weights * 6
                self.assertLessEqual(traffic["bottleneck_bytes"], most, change)

    def test_text_fits_a_terminal(self):
        for args in ([SMALL, "--failed", "domain 3: gpu 4; domain 9: gpu 1"], [*LLAMA[1:], "--reduced", "31,30,28"]):
            widest = max(len(line) for line in self.succeed("plan", *args).splitlines())
            self.assertLessEqual(widest, 130)

    def test_spare_domains_take_over(self):
        result = self.succeed_json("plan", SMALL, "--failed", "domain 3: all", "--policy", "hot_spares")
        self.assertEqual(result["placement"]["spare_domains"], 2)
        domains = {group["domain"] for replica in result["placement"]["replicas"] for group in replica["groups"]}
        self.assertEqual(len(domains), 16)
        self.assertNotIn(3, domains)
        self.assertEqual(result["summary"]["degrees"], [8])


class BadPlanInputTest(CliTest):
    def refuse_plan(self, *args, say):
        stderr = self.refuse("plan", *args)
        for part in say:
            self.assertIn(part, stderr)

    def test_options_that_contradict_or_miss_each_other(self):
        self.refuse_plan(say=["name a scenario file, or a --model"])
        self.refuse_plan(SMALL, "--model", "llama3-70b", say=["--model", "does not go with a scenario"])
        self.refuse_plan("--model", "llama3-70b", say=["--tensor-model-parallel-size"])
        self.refuse_plan("--model", "llama3-70b", "--failed", "domain 1: gpu 1", say=["--failed: needs a scenario"])
        self.refuse_plan(*LLAMA[1:], "--format", "hostfile", say=["--format hostfile, devices: needs a scenario"])
        self.refuse_plan(*LLAMA[1:], "--format", "yaml", say=["found 'yaml'", "megatron"])

    def test_degrees_and_names_out_of_range(self):
        self.refuse_plan(*LLAMA[1:], "--reduced", "32,0,x,30", say=["'32', '0', 'x'", "from 1 to 31"])
        self.refuse_plan("--model", "lama3-70b", "--tensor-model-parallel-size", 8, say=["did you mean 'llama3-70b'?"])
        self.refuse_plan("--model", "llama3-70b", "--tensor-model-parallel-size", 0, say=["found 0", "1 to"])
        self.refuse_plan(*LLAMA[1:], "--reduced", ",".join(["30"] * 65), say=["found 65 degrees", "at most 64"])

    def test_failed_gpus_are_all_checked_at_once(self):
        self.refuse_plan(
            SMALL, "--failed", "domain 16: gpu 0; domain 3: gpu 8; dmain 4: gpu 1",
            say=["domain 16: found", "domain 3: found", "dmain 4: found"],
        )

    def test_a_pause_and_an_unknown_policy(self):
        self.refuse_plan(SMALL, "--policy", "npt", say=["did you mean 'ntp'?"])
        self.refuse_plan(
            SMALL, "--set", "minibatch=fixed", "--policy", "dp_drop", "--failed", "domain 0: gpu 0", say=["pauses the job"]
        )

    def test_a_file_of_hosts_must_name_every_machine(self):
        names = self.directory / "names"
        names.write_text("a\nb c\na\n")
        self.refuse_plan(
            SMALL, "--hosts", names,
            say=["line 2: found 'b c'", "line 3: found 'a' a second time", "found 3 machines, expected 16"],
        )


if __name__ == "__main__":
    unittest.main()
