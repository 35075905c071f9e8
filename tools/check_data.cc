// check_data: detects faults in data sets before training.
#include <gflags/gflags.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "check_data/findings.h"
#include "check_data/print.h"
#include "common/tool.h"
#include "common/worker_flags.h"
#include "core/error.h"
#include "core/strings.h"

DEFINE_bool(json, false, "[Output] one JSON object instead of text");
DEFINE_bool(strict, false, "[Run] notes count as problems");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "crema check_data [flags] TRAIN_DB [TEST_DB]\n"
    "\n"
    "Looks for mistakes in data sets. Reads and decodes every record, and prints the number\n"
    "of records of each label, the sizes of the images, and problems and notes. Problems:\n"
    "broken records, negative labels, bad boxes, equal images with different labels, test\n"
    "images that are in the training set, test labels that it lacks. Notes: gaps in the\n"
    "labels, duplicates, gray and alpha images, sizes that differ.\n"
    "\n"
    "Exit codes: 0 no problems; 3 problems.\n"
    "\n"
    "Examples:\n"
    "crema check_data train_lmdb test_lmdb\n"
    "crema check_data --strict --json train_lmdb";

int Run(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.size() > 2) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("expected TRAIN_DB [TEST_DB], got ", arguments.size(), " arguments; see --help"));
  }
  std::vector<SetSummary> sets;
  for (const std::string& path : arguments) sets.push_back(SummarizeSet(path, WorkersOfFlags()));
  const std::vector<Finding> findings = FindAll(sets);
  std::cout << (FLAGS_json ? ReportJson(sets, findings) : ReportText(sets, findings));
  const bool bad = std::ranges::any_of(
      findings, [](const Finding& finding) { return finding.problem || FLAGS_strict; });
  return bad ? ExitCode(ErrorCode::kDataLoss) : 0;
}

}  // namespace
}  // namespace crema::tools

int main(int argc, char** argv) {
  return crema::tools::RunTool(argc, argv, crema::tools::kUsage, crema::tools::Run);
}
