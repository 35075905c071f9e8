// `deploy export` to ONNX.
#pragma once

#include <memory>
#include <string>

#include "inference/model.h"

namespace crema::tools {

// Returns true if --format is onnx, or it is not given and `path` ends in .onnx. Throws
// kInvalidArgument for another --format, and for flags of ONNX without it.
bool WantsOnnx(const std::string& path);

// Writes the file that the flags describe, and prints its contents. Returns the exit code; 1 if the
// check finds a difference, in which case it writes nothing.
int ExportOnnx(const std::shared_ptr<const Model>& model, const Registry& registry,
               const std::string& path);

}  // namespace crema::tools
