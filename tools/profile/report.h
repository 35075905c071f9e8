// Output of profile.
#pragma once

#include <string>
#include <vector>

#include "core/log.h"
#include "runtime/profiler.h"
#include "runtime/roofline.h"

namespace crema::tools {

struct ProfileReport {
  const Plan& plan;
  const Profile& profile;
  ProfileOptions options;
  int threads = 1;
  Roofline peak;
  std::string no_backward;  // why there is no backward pass; empty if there is one
};

// Returns the share of the machine's peak, 0..1 (more if tensors are cached); 0 if unknown.
double FlopShare(const PassProfile& pass, const Roofline& peak);
double MemoryShare(const PassProfile& pass, const Roofline& peak);
// Returns for example "packed" or "native"; "none" for a layer without implementation.
std::string ImplementationName(const PlannedLayer& layer);
std::string OutputShapes(const Plan& plan, const PlannedLayer& layer);

enum class LayerOrder { kTime, kNet };

// Prints the table, for a terminal of 100 columns.
void PrintTable(const ProfileReport& report, LayerOrder order);
// Logs the lines of `caffe time`, a forward and a backward one for each layer in the order of the
// net. A layer that another one computes took no time.
void LogCaffeLines(const ProfileReport& report, LogSink& log);
// Prints one JSON object, layers in the order of the net.
void PrintJson(const ProfileReport& report);
// Formats the timed passes in Chrome's trace event format: an event per layer pass, nested in one
// per pass and one per iteration.
std::string ChromeTrace(const ProfileReport& report);

}  // namespace crema::tools
