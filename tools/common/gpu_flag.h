// --gpu, for commands of which Caffe's had it.
#pragma once

namespace crema::tools {

// Throws kInvalidArgument when --gpu is neither "all" nor numbers of devices, each once; and
// kDeviceFailure when it is, as long as this version computes on the CPU only. Nothing without it.
void RefuseGpuFlag();

}  // namespace crema::tools
