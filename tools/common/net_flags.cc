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
  for (const std::string& entry : Split(text, ';')) {
    const size_t colon = entry.rfind(':');
    if (colon == std::string::npos || colon == 0) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("--shape '", entry, "' is not BLOB:SHAPE, such as data:1,3,224,224, nor, for an ",
                  "ONNX model, NAME=SHAPE, such as data=1x3x224x224"));
    }
    std::vector<int64_t> dims;
    for (const std::string& dim : Split(entry.substr(colon + 1), ',')) {
      dims.push_back(ParseDim(dim, entry));
    }
    shapes[entry.substr(0, colon)] = Shape(std::span<const int64_t>(dims));
  }
  return shapes;
}

std::map<std::string, Shape> ParseOnnxShapes(const std::string& text) {
  if (text.find('=') == std::string::npos) return ParseShapes(text);
  std::map<std::string, Shape> shapes;
  for (const std::string& entry : Split(text, ',')) {
    const size_t equals = entry.rfind('=');
    if (equals == std::string::npos || equals == 0) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("--shape '", entry, "' is not NAME=SHAPE, such as data=1x3x224x224"));
    }
    std::vector<int64_t> dims;
    for (const std::string& dim : Split(entry.substr(equals + 1), 'x')) {
      dims.push_back(ParseDim(dim, entry));
    }
    const std::string name = entry.substr(0, equals);
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
       StrCat(what, " is '", name, "'; use FP32 or BF16, on a GPU also TF32 or FP16"));
}

void SetTrainState(int level, const std::string& stages, SolverParameter* solver) {
  if (level != 0) solver->mutable_train_state()->set_level(level);
  for (const std::string& stage : Split(stages, ',')) {
    if (!stage.empty()) solver->mutable_train_state()->add_stage(stage);
  }
}

}  // namespace crema::tools
