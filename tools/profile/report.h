// What profile prints and writes.
#pragma once

#include <string>
#include <vector>

#include "runtime/profiler.h"
#include "runtime/roofline.h"

namespace crema::tools {

struct ProfileReport {
  const Plan& plan;
  const Profile& profile;
  ProfileOptions options;
  int threads = 1;
  Roofline peak;
  std::string no_backward;  // why there is none; empty when there is
};

// Share of the machine's peak, 0..1 (more where tensors come from the cache); 0 where not known.
double FlopShare(const PassProfile& pass, const Roofline& peak);
double MemoryShare(const PassProfile& pass, const Roofline& peak);
// "packed", "native"; "none" for a layer without one.
std::string ImplementationName(const PlannedLayer& layer);
std::string OutputShapes(const Plan& plan, const PlannedLayer& layer);

enum class LayerOrder { kTime, kNet };

// The table, for a terminal of 100 columns.
void PrintTable(const ProfileReport& report, LayerOrder order);
// One JSON object, layers in the order of the net.
void PrintJson(const ProfileReport& report);
// The timed passes in Chrome's trace event format: an event a layer pass, inside one for the pass,
// inside one for the iteration.
std::string ChromeTrace(const ProfileReport& report);

}  // namespace crema::tools
