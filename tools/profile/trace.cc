// The format: "Trace Event Format", the JSON object form with complete ("X") and metadata ("M")
// events. Times are microseconds; three decimals keep the nanoseconds.
#include <cstdio>

#include "common/json.h"
#include "core/strings.h"
#include "profile/report.h"

namespace crema::tools {
namespace {

constexpr int kProcess = 1;
constexpr int kThread = 1;

std::string Microseconds(int64_t nanoseconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%ld.%03ld", nanoseconds / 1000, nanoseconds % 1000);
  return text;
}

class TraceWriter {
 public:
  explicit TraceWriter(const ProfileReport& report) : report_(report) {}

  std::string Write() {
    text_ = "{\"displayTimeUnit\": \"ms\",\n\"traceEvents\": [\n";
    Metadata("process_name", StrCat("crema profile: ", report_.plan.name));
    Metadata("thread_name", Phase_Name(report_.plan.state.phase()));
    for (size_t i = 0; i < report_.profile.forward.runs.size(); ++i) Iteration(i);
    return text_ + "\n]}\n";
  }

 private:
  void Metadata(const char* what, const std::string& name) {
    if (text_.back() == '}') text_ += ",\n";
    text_ += StrCat("{\"ph\": \"M\", \"name\": \"", what, "\", \"pid\": ", kProcess,
                    ", \"tid\": ", kThread, ", \"args\": {\"name\": ", JsonString(name), "}}");
  }

  void Event(const std::string& name, const char* category, const TimeSpan& span,
             const std::string& arguments) {
    text_ += StrCat(
        ",\n{\"ph\": \"X\", \"name\": ", JsonString(name), ", \"cat\": \"", category,
        "\", \"pid\": ", kProcess, ", \"tid\": ", kThread, ", \"ts\": ", Microseconds(span.begin),
        ", \"dur\": ", Microseconds(span.end - span.begin), ", \"args\": {", arguments, "}}");
  }

  void Iteration(size_t i) {
    const Profile& profile = report_.profile;
    TimeSpan span = profile.forward.runs[i];
    const bool backward = i < profile.backward.runs.size();
    if (backward) span.end = profile.backward.runs[i].end;
    Event(StrCat("iteration ", i), "iteration", span, "");
    Event("forward", "pass", profile.forward.runs[i], "");
    for (const LayerProfile& layer : profile.layers) Layer(layer, layer.forward, "forward", i);
    if (!backward) return;
    Event("backward", "pass", profile.backward.runs[i], "");
    for (size_t l = profile.layers.size(); l-- > 0;) {
      Layer(profile.layers[l], profile.layers[l].recompute, "recompute", i);
      Layer(profile.layers[l], profile.layers[l].backward, "backward", i);
    }
  }

  void Layer(const LayerProfile& layer, const PassProfile& pass, const char* category, size_t i) {
    if (i >= pass.runs.size()) return;
    const PlannedLayer& planned = report_.plan.layers[layer.layer];
    const TimeSpan& span = pass.runs[i];
    const PassProfile run{.runs = {},
                          .median = static_cast<double>(span.end - span.begin) * 1e-9,
                          .macs = pass.macs,
                          .bytes = pass.bytes,
                          .heap = {}};
    const std::string& name = planned.name().empty() ? planned.type->name : planned.name();
    Event(name, category, span,
          StrCat("\"type\": ", JsonString(planned.type->name),
                 ", \"shape\": ", JsonString(OutputShapes(report_.plan, planned)),
                 ", \"implementation\": ", JsonString(ImplementationName(planned)),
                 ", \"gflops\": ", JsonNumber(run.gflops()), ", \"gbs\": ", JsonNumber(run.gbs())));
  }

  const ProfileReport& report_;
  std::string text_;
};

}  // namespace

std::string ChromeTrace(const ProfileReport& report) { return TraceWriter(report).Write(); }

}  // namespace crema::tools
