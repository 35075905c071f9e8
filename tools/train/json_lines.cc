#include "train/json_lines.h"

#include <vector>

#include "common/log.h"
#include "core/strings.h"

namespace crema::tools {
namespace {

void Say(const char* event, const std::string& message, std::vector<LogField> fields) {
  fields.insert(fields.begin(), {"event", event});
  LogEvent(Severity::kInfo, message, fields);
}

// Formats as "test#0:accuracy", followed by "[1]" for a blob of several elements.
void AddOutputs(const std::string& group, const std::vector<OutputValue>& outputs,
                std::vector<LogField>* fields) {
  size_t element = 0;
  for (size_t k = 0; k < outputs.size(); ++k) {
    const bool again = k > 0 && outputs[k - 1].blob == outputs[k].blob;
    element = again ? element + 1 : 0;
    fields->emplace_back(
        StrCat(group, ":", outputs[k].blob, again ? StrCat("[", element, "]") : std::string()),
        outputs[k].value);
  }
}

}  // namespace

void JsonLines::OnStart(const std::string& net, int64_t iteration) {
  Say("start", "training " + net, {{"net", net}, {"iteration", iteration}});
}

void JsonLines::OnIteration(const IterationReport& report) {
  if (!report.displayed) return;
  std::vector<LogField> fields = {{"iteration", report.iteration},
                                  {"epoch", report.epoch},
                                  {"loss", report.loss},
                                  {"smoothed_loss", report.smoothed_loss},
                                  {"lr", report.rate}};
  AddOutputs("train", report.outputs, &fields);
  Say("iteration", StrCat("Iteration ", report.iteration, ", loss = ", report.smoothed_loss),
      std::move(fields));
}

void JsonLines::OnTest(const TestReport& report) {
  std::vector<LogField> fields = {{"iteration", report.iteration},
                                  {"net", static_cast<int64_t>(report.net)}};
  if (report.has_loss) fields.emplace_back("loss", report.loss);
  AddOutputs(StrCat("test#", report.net), report.outputs, &fields);
  Say("test", StrCat("Iteration ", report.iteration, ", test net #", report.net),
      std::move(fields));
}

void JsonLines::OnSnapshot(const std::string& model, const std::string& state) {
  Say("snapshot", "snapshot " + model, {{"model", model}, {"state", state}});
}

void JsonLines::OnBest(const std::string& model, const std::string& metric, double value) {
  Say("best", StrCat("best so far: ", metric, " = ", value),
      {{"model", model}, {"metric", metric}, {"value", value}});
}

void JsonLines::OnFinalLoss(int64_t iteration, double loss) {
  Say("final_loss", StrCat("Iteration ", iteration, ", loss = ", loss),
      {{"iteration", iteration}, {"loss", loss}});
}

void JsonLines::OnEnd(bool stopped_early) {
  Say("end", stopped_early ? "stopped early" : "done",
      {{"stopped_early", int64_t{stopped_early ? 1 : 0}}});
}

}  // namespace crema::tools
