// Crema's side of bench/compare: loads a net, runs it once, and then does what its standard input
// says, so that a driver can let it and others take turns.
//   compare_runner mode=infer|train|weights model=NET weights=W shapes=data:8,3,224,224 ...
// runner_options.h has the keys. Answers each line with a line of JSON; "error" in it tells what
// failed:
//   run N            {"seconds": [...], "loss": x}: N runs, the time of each
//   inputs FOLDER    writes the inputs
//   outputs FOLDER   writes the outputs of the last run
//   weights FILE     writes net and blobs
//   updates FILE     {"difference": x}: how far what was learned is from what is in FILE
//   memory           {"peak_kb": n}: the largest resident set until now
//   quit
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "compare/racer.h"
#include "core/error.h"
#include "core/json.h"
#include "core/strings.h"

namespace crema::compare {
namespace {

void Answer(const std::string& json) {
  std::printf("%s\n", json.c_str());
  std::fflush(stdout);
}

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string RunTimes(int64_t count, Racer* racer) {
  std::vector<std::string> seconds;
  double loss = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double start = Seconds();
    loss = racer->Run();
    seconds.push_back(JsonNumber(Seconds() - start));
  }
  return StrCat("{\"seconds\": [", Join(seconds, ", "), "], \"loss\": ", JsonNumber(loss), "}");
}

// The peak of this program. ru_maxrss would contain that of the driver before exec.
std::string PeakMemory() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word && word != "VmHWM:") {
  }
  int64_t kilobytes = 0;
  status >> kilobytes;
  return StrCat("{\"peak_kb\": ", kilobytes, "}");
}

std::string Do(const std::string& command, const std::string& argument, Racer* racer) {
  if (command == "run") return RunTimes(std::atoll(argument.c_str()), racer);
  if (command == "inputs") return StrCat("{\"inputs\": ", racer->WriteInputs(argument), "}");
  if (command == "outputs") return StrCat("{\"outputs\": ", racer->WriteOutputs(argument), "}");
  if (command == "memory") return PeakMemory();
  if (command == "updates") {
    return StrCat("{\"difference\": ", JsonNumber(racer->CompareUpdates(argument)), "}");
  }
  if (command == "weights") {
    racer->WriteWeights(argument);
    return "{}";
  }
  Fail(ErrorCode::kInvalidArgument, StrCat("unknown command '", command, "'"));
}

void Serve(Racer* racer) {
  std::string line;
  while (std::getline(std::cin, line) && line != "quit") {
    const size_t space = line.find(' ');
    const std::string argument = space == std::string::npos ? "" : line.substr(space + 1);
    Answer(Do(line.substr(0, space), argument, racer));
  }
}

int Run(std::span<char* const> arguments) {
  const RunnerOptions options = ParseRunnerOptions(arguments);
  const Registry registry = BuiltinRegistry();
  if (options.mode == Mode::kWeights) {
    WriteRandomWeights(options, registry);
    return 0;
  }
  const std::unique_ptr<Racer> racer = MakeRacer(options, registry);
  const double loss = racer->Run();
  Answer(StrCat("{\"ready\": true, \"loss\": ", JsonNumber(loss), "}"));
  Serve(racer.get());
  return 0;
}

}  // namespace
}  // namespace crema::compare

int main(int argc, char** argv) {
  try {
    return crema::compare::Run(std::span(argv, static_cast<size_t>(argc)).subspan(1));
  } catch (const std::exception& error) {
    crema::compare::Answer(crema::StrCat("{\"error\": ", crema::JsonString(error.what()), "}"));
    return 1;
  }
}
