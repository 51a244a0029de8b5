// The JSON layer under scenarios: what it refuses, where it says so, and --set.

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "ntpsim/scenario/scenario.h"

namespace {

using namespace ntpsim;  // NOLINT(google-build-using-namespace)

const std::string kSmall = NTPSIM_SOURCE_DIR "/scenarios/small.json";

// The only error of a text that must have exactly one.
Diagnostic only_error(std::string_view text) {
  const auto loaded = scenario::parse_scenario(text, "x.json", {});
  REQUIRE_FALSE(loaded);
  REQUIRE(loaded.error().items().size() == 1);
  return loaded.error().items().front();
}

std::vector<Diagnostic> set_diagnostics(std::vector<std::string> sets) {
  const auto loaded = scenario::load_scenario(kSmall, {.sets = std::move(sets), .policies = {}});
  return loaded ? loaded->warnings.items() : loaded.error().items();
}

scenario::Scenario with_sets(std::vector<std::string> sets) {
  const auto loaded = scenario::load_scenario(kSmall, {.sets = std::move(sets), .policies = {}});
  if (!loaded) FAIL(to_string(loaded.error().items().front()));
  return loaded->scenario;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("syntax errors name the line and the column of the character in the way") {
  struct Case {
    std::string text;
    std::string message_start;
  };
  const std::vector<Case> cases = {
      {"{\n  \"name\": tru\n}", "line 2, column 14: "},
      {"{\n  \"name\": \"a\"\n  \"seed\": 1\n}", "line 3, column 8: "},
      {"{\"seed\": NaN}", "line 1, column 10: "},
      {"{\"seed\": 1e400}", "line 1, column 14: number overflow"},
      {"{\"name\": \"\xC3\xA9\xC3\xA9\" x}", "line 1, column 15: "},
      {"{\"name\": \"abc", "line 1, column 14: "},
      {"{\"name\": [1, 2", "line 1, column 15: "},
      {"{} {}", "line 1, column 4: "},
      {"{\"a\": \"\xFF\"}", "line 1, column 8: "},
      {std::string("\x7f"
                   "ELF\0\1\2",
                   7),
       "line 1, column 5: a NUL byte"},
      {std::string("{}\n\0{}", 6), "line 2, column 1: a NUL byte"},
      {"", "line 1, column 1: the file is empty"},
      {" \n\t\n", "line 1, column 1: the file is empty"},
      {"\xFF\xFE{\0}\0", "line 1, column 1: this is UTF-16"},
  };
  for (const Case& each : cases) {
    CAPTURE(each.text);
    const Diagnostic error = only_error(each.text);
    CHECK(error.file == "x.json");
    CHECK(error.pointer.empty());
    CHECK(error.message.substr(0, each.message_start.size()) == each.message_start);
    for (const char c : error.message) CHECK((c >= ' ' && c <= '~'));
  }
}

TEST_CASE("a UTF-8 byte order mark and comments are let through") {
  std::ifstream file(kSmall);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  CHECK(scenario::parse_scenario("\xEF\xBB\xBF// a comment\n/* another */" + text, "x.json", {}));
}

TEST_CASE("nesting deeper than 64 levels is refused, however deep") {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  CHECK(contains(only_error(nested(64)).message, "found a list, expected an object"));
  CHECK(only_error(nested(65)).message == "line 1, column 65: nested deeper than 64 levels");
  CHECK(only_error("{\n// [\n\"a[\": " + nested(64) + "}").message ==
        "line 3, column 70: nested deeper than 64 levels");
  CHECK(only_error(nested(1'000'000)).message == "line 1, column 65: nested deeper than 64 levels");
  CHECK(only_error(std::string(1'000'000, '[')).message == "line 1, column 65: nested deeper than 64 levels");
}

TEST_CASE("a duplicate key is named where it stands; equal keys of different objects are none") {
  const auto loaded =
      scenario::parse_scenario(R"({"a": [{}, {"b/c": 1, "x": {"b/c": 1}, "b/c": 2}], "a": 3})", "x.json", {});
  REQUIRE_FALSE(loaded);
  REQUIRE(loaded.error().items().size() == 2);
  CHECK(to_string(loaded.error().items()[0]) ==
        "error: x.json: /a/1/b~1c: the key \"b/c\" occurs twice in one object");
  CHECK(to_string(loaded.error().items()[1]) ==
        "error: x.json: /a: the key \"a\" occurs twice in one object");
}

TEST_CASE("a document that is no object is refused by what it is") {
  CHECK(only_error("3").message == "found the number 3, expected an object");
  CHECK(only_error("\"x\"").message == "found text \"x\", expected an object");
  CHECK(only_error("null").message == "found null, expected an object");
}

TEST_CASE("files that cannot be read give the system's reason") {
  const auto reason = [](const std::string& path) {
    const auto loaded = scenario::load_scenario(path, {});
    REQUIRE_FALSE(loaded);
    REQUIRE(loaded.error().items().size() == 1);
    CHECK(loaded.error().items().front().file == (path.empty() ? "''" : path));
    return loaded.error().items().front().message;
  };
  CHECK(reason(NTPSIM_SOURCE_DIR "/scenarios/none.json") == "cannot read it: No such file or directory");
  CHECK(reason(NTPSIM_SOURCE_DIR "/scenarios") == "cannot read it: Is a directory");
  CHECK(reason("") == "cannot read it: No such file or directory");
  CHECK(reason(std::string("a\0b", 3)) == "cannot read it: its name holds a NUL byte");
}

TEST_CASE("--set takes dotted paths and JSON pointers, through lists too, in order") {
  CHECK(with_sets({"training.seq_length=4096"}).job.training.seq_length == 4096);
  CHECK(with_sets({"/training/seq_length=4096", "training.seq_length=2048"}).job.training.seq_length == 2048);
  CHECK(with_sets({"failures.classes.0.repair_time=2 d"}).failures.classes[0].repair_time->mean_s() ==
        172800);
  CHECK(with_sets({"/failures/classes/2/name=a=b"}).failures.classes[2].name == "a=b");
  CHECK(with_sets({"description="}).description.empty());
  CHECK(with_sets({"name=\"8\""}).name == "8");
  // Objects that are not there are created.
  CHECK(with_sets({"recovery.detection=7 s"}).job.recovery.detection == Time::from_seconds(7));
  CHECK(with_sets({"policies=[\"dp_drop\"]"}).policies.size() == 1);
}

TEST_CASE("--set that cannot be applied says why") {
  struct Case {
    std::string set;
    std::string pointer;
    std::string part;
  };
  const std::vector<Case> cases = {
      {"seed", "", "expected a path and a value"},
      {"=3", "", "expected a path and a value"},
      {"failures.classes.3.share=1", "/failures/classes", "\"3\" is no index into a list of 3"},
      {"failures.classes.x=1", "/failures/classes", "\"x\" is no index into a list of 3"},
      {"failures.classes.-1=1", "/failures/classes", "\"-1\" is no index"},
      {"name.x=1", "/name", "\"small\" is no object, so it has no member \"x\""},
      {"policies=[1,", "", "policies: line 1, column"},
      {"name=\xFF", "", "not UTF-8"},
  };
  for (const Case& each : cases) {
    CAPTURE(each.set);
    const auto found = set_diagnostics({each.set});
    REQUIRE(found.size() == 1);
    CHECK(found[0].severity == Severity::kError);
    CHECK(found[0].file == "--set");
    CHECK(found[0].pointer == each.pointer);
    CHECK(contains(found[0].message, each.part));
  }
}

TEST_CASE("an error in a value that --set put there names --set, others the file") {
  const auto found = set_diagnostics({"training.seq_length=-1", "trainin.x=1", "horizon=3"});
  REQUIRE(found.size() == 3);
  CHECK(to_string(found[0]) == "error: --set: /trainin: unknown key \"trainin\"; did you mean \"training\"?");
  CHECK(to_string(found[1]) ==
        "error: --set: /training/seq_length: found the number -1, expected a whole number from 1 to "
        "1000000000");
  CHECK(to_string(found[2]) ==
        "error: --set: /horizon: found the bare number 3: append a unit, as in \"5 d\"");
  const auto other = set_diagnostics({"training={}"});
  REQUIRE(other.size() == 3);
  CHECK(to_string(other[0]).starts_with("error: --set: /training/global_batch_size: missing"));
  CHECK(to_string(other[1]).starts_with("error: --set: /training/seq_length: missing"));
  CHECK(to_string(other[2]).starts_with("error: " + kSmall + ": /policies/3: ntp needs"));
  // Rules between the members of an object name --set when it touched any of them.
  const auto rule = set_diagnostics({"failures.classes.1.share=0.5"});
  REQUIRE(rule.size() == 1);
  CHECK(to_string(rule[0]).starts_with("error: --set: /failures/classes/1: found 2 of"));
}
