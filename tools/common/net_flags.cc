#include "common/net_flags.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"

namespace crema::tools {
namespace {

int64_t ParseDim(const std::string& text, const std::string& where) {
  int64_t dim = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, dim);
  if (error != std::errc() || stop != end || dim < 0) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("'", text, "' in --shape '", where, "' is not a dimension (0 or more)"));
  }
  return dim;
}

}  // namespace

std::map<std::string, Shape> ParseShapes(const std::string& text) {
  std::map<std::string, Shape> shapes;
  if (text.empty()) return shapes;
  const bool with_equals = text.find('=') != std::string::npos;
  for (const std::string& entry : Split(text, with_equals ? ',' : ';')) {
    const size_t after_name = entry.rfind(with_equals ? '=' : ':');
    if (after_name == std::string::npos || after_name == 0) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("--shape '", entry, "' is not NAME=SHAPE, such as data=1x3x224x224"));
    }
    std::vector<int64_t> dims;
    for (const std::string& dim : Split(entry.substr(after_name + 1), with_equals ? 'x' : ',')) {
      dims.push_back(ParseDim(dim, entry));
    }
    const std::string name = entry.substr(0, after_name);
    if (!shapes.emplace(name, Shape(std::span<const int64_t>(dims))).second) {
      Fail(ErrorCode::kInvalidArgument, StrCat("--shape gives '", name, "' twice"));
    }
  }
  return shapes;
}

NetState ParseState(const std::string& phase, int level, const std::string& stages) {
  NetState state;
  std::string name = phase;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  if (name != "test" && name != "train") {
    Fail(ErrorCode::kInvalidArgument, StrCat("--phase is '", phase, "'; it is test or train"));
  }
  state.set_phase(name == "test" ? TEST : TRAIN);
  state.set_level(level);
  for (const std::string& stage : Split(stages, ',')) {
    if (!stage.empty()) state.add_stage(stage);
  }
  return state;
}

Precision ParsePrecision(const std::string& what, const std::string& name) {
  std::string upper = name;
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
  for (const Precision precision : {FP32, BF16, TF32, FP16}) {
    if (upper == Precision_Name(precision)) return precision;
  }
  Fail(ErrorCode::kInvalidArgument,
       StrCat(what, " is '", name, "'; use FP32 or BF16, on a GPU also TF32 or FP16",
              what == "--precision" ? ", in deploy export also INT8" : ""));
}

void SetTrainState(int level, const std::string& stages, SolverParameter* solver) {
  if (level != 0) solver->mutable_train_state()->set_level(level);
  for (const std::string& stage : Split(stages, ',')) {
    if (!stage.empty()) solver->mutable_train_state()->add_stage(stage);
  }
}

}  // namespace crema::tools
