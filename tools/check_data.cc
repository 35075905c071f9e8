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

DEFINE_bool(json, false, "one JSON object instead of text");
DEFINE_bool(strict, false, "notes count as problems");

namespace crema::tools {
namespace {

constexpr char kUsage[] =
    "check_data [flags] TRAIN_DB [TEST_DB]\n"
    "\n"
    "Reads and decodes every record, and prints the number of records of each label, the sizes\n"
    "of the images, and problems and notes. Problems: broken records, negative labels, bad\n"
    "boxes, equal images with different labels, test images that are in the training set, test\n"
    "labels that it lacks. Notes: gaps in the labels, duplicates, gray and alpha images, sizes\n"
    "that differ.\n"
    "Exit code 0, or 3 when there are problems.\n"
    "Example: check_data train_lmdb test_lmdb";

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
