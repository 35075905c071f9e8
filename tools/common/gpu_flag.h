// --gpu, for commands that can compute on a GPU.
#pragma once

#include <vector>

#include "core/log.h"
#include "crema.pb.h"
#include "runtime/compute_device.h"

namespace crema::tools {

// Returns the GPU of --gpu, or the CPU without it. Throws kInvalidArgument unless the flag is "all"
// or a list of distinct device numbers; kDeviceFailure for an unknown GPU, a build without CUDA, or
// several GPUs, since most commands use one.
ComputeDevice DeviceOfFlag();

// Like DeviceOfFlag for a run: without --gpu the solver decides, as in Caffe: an explicit
// `solver_mode: GPU` selects GPU device_id. Without such a GPU, warns and uses the CPU.
ComputeDevice DeviceOfRun(const SolverParameter& solver, LogSink& log);

// Like DeviceOfRun for several devices: all GPUs of --gpu, in its order.
std::vector<ComputeDevice> DevicesOfRun(const SolverParameter& solver, LogSink& log);

// For planning only: the device of --gpu need not exist.
Device PlannedDeviceOfFlag();

}  // namespace crema::tools
