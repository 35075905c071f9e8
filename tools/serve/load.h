// From files to something that runs.
#pragma once

#include <memory>
#include <string>

#include "server/metrics/server_metrics.h"
#include "server/model/executable.h"
#include "server/repository/repository_scan.h"

namespace crema::tools {

// A .crema file or a net with its weights, as --threads, --gpu, --scale and so on say. Throws what
// Model::Open and Model::Make throw. Thread safety: any number of threads.
std::shared_ptr<const server::Executable> LoadServed(const std::string& name,
                                                     const server::VersionFiles& files);

// Throws kInvalidArgument where a flag is given that only a prototxt heeds.
void RefuseFlagsOfPrototxts();

// Adds the memory of the GPU of --gpu, if any. Throws as DeviceOfFlag.
void WatchGpuOfFlag(server::ServerMetrics* metrics);

}  // namespace crema::tools
