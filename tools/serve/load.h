// Loads models for serving.
#pragma once

#include <memory>
#include <string>

#include "graph/registry.h"
#include "server/metrics/server_metrics.h"
#include "server/model/executable.h"
#include "server/repository/repository_scan.h"

namespace crema::tools {

// Returns the layers of all models: built in, and of --plugin. Throws like LayersOfFlag. Thread
// safety: any number of threads.
const Registry& ServedLayers();

// Loads a .crema file, a net with its weights or a cascade, with the options of --threads, --gpu,
// --scale and so on. Throws what Model::Open and Model::Make throw. Thread safety: any number of
// threads.
std::shared_ptr<const server::Executable> LoadServed(const std::string& name,
                                                     const server::VersionFiles& files);

// Throws kInvalidArgument if a flag is given that only applies to a prototxt; `labels`: --labels is
// one of them.
void RefuseFlagsOfPrototxts(bool labels);

// Adds a metric for the memory of the GPU of --gpu, if set. Throws like DeviceOfFlag.
void WatchGpuOfFlag(server::ServerMetrics* metrics);

}  // namespace crema::tools
