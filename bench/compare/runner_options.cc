#include "compare/runner_options.h"

#include <cstdlib>
#include <functional>
#include <string_view>
#include <vector>

#include "common/net_flags.h"
#include "common/tool.h"
#include "core/error.h"
#include "core/strings.h"

namespace crema::compare {
namespace {

Mode ParseMode(const std::string& text) {
  if (text == "infer") return Mode::kInfer;
  if (text == "train") return Mode::kTrain;
  if (text == "weights") return Mode::kWeights;
  Fail(ErrorCode::kInvalidArgument, StrCat("mode is '", text, "'; use infer, train or weights"));
}

double ParseNumber(const std::string& key, const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (!text.empty() && *end == '\0') return value;
  Fail(ErrorCode::kInvalidArgument, StrCat(key, " is '", text, "', which is not a number"));
}

}  // namespace

RunnerOptions ParseRunnerOptions(std::span<char* const> arguments) {
  RunnerOptions options;
  const std::map<std::string, std::function<void(const std::string&)>> setters = {
      {"mode", [&](const std::string& text) { options.mode = ParseMode(text); }},
      {"model", [&](const std::string& text) { options.model = text; }},
      {"weights", [&](const std::string& text) { options.weights = text; }},
      {"shapes", [&](const std::string& text) { options.shapes = tools::ParseShapes(text); }},
      {"integers", [&](const std::string& text) { options.integers = tools::ParseShapes(text); }},
      {"threads",
       [&](const std::string& text) {
         options.threads = tools::CheckedThreads(static_cast<int>(ParseNumber("threads", text)));
       }},
      {"rate", [&](const std::string& text) { options.rate = ParseNumber("rate", text); }},
      {"dropout", [&](const std::string& text) { options.dropout = text != "0"; }},
      {"autotune",
       [&](const std::string& text) { options.autotune = ParseNumber("autotune", text); }},
      {"precision", [&](const std::string& text) {
         options.precision = tools::ParsePrecision("precision", text);
       }}};
  for (const std::string_view argument : arguments) {
    const size_t equals = argument.find('=');
    const std::string key(argument.substr(0, equals));
    const auto setter = setters.find(key);
    if (setter == setters.end() || equals == std::string_view::npos) {
      std::vector<std::string> known;
      for (const auto& [name, unused] : setters) known.push_back(name);
      Fail(ErrorCode::kInvalidArgument,
           StrCat("'", argument, "' is not KEY=VALUE", DidYouMean(key, known),
                  "; keys are: ", Join(known, " ")));
    }
    setter->second(std::string(argument.substr(equals + 1)));
  }
  for (const auto& [name, value] :
       {std::pair("model", &options.model), std::pair("weights", &options.weights)}) {
    if (value->empty()) Fail(ErrorCode::kInvalidArgument, StrCat(name, "=FILE is missing"));
  }
  return options;
}

}  // namespace crema::compare
