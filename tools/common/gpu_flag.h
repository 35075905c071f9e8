// --gpu, for commands that can compute on a GPU.
#pragma once

#include <vector>

#include "core/log.h"
#include "crema.pb.h"
#include "runtime/compute_device.h"

namespace crema::tools {

// The GPU that --gpu names, the CPU without it. Throws kInvalidArgument when it is neither "all"
// nor numbers of devices, each once; kDeviceFailure when there is no such GPU or this build has no
// CUDA, and for several, as most commands use one.
ComputeDevice DeviceOfFlag();

// The same for a run, where without --gpu the solver decides, as with Caffe: `solver_mode: GPU`, if
// written, means GPU device_id. Where there is none, that is a warning, and the CPU.
ComputeDevice DeviceOfRun(const SolverParameter& solver, LogSink& log);

// The same for a run on one device or on several GPUs: all that --gpu names, in its order.
std::vector<ComputeDevice> DevicesOfRun(const SolverParameter& solver, LogSink& log);

// For what only plans: the device that --gpu names need not be there.
Device PlannedDeviceOfFlag();

}  // namespace crema::tools
