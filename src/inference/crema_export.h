// Exports a model to one file: the implementation of `deploy export`.
#pragma once

#include <memory>
#include <string>

#include "inference/model.h"

namespace crema {

// Writes the net without unneeded layers, its weights, its card and a recorded run. Reads the file
// back and checks the recording before it renames the file to its final name, atomically. Throws
// kIoFailure; kInvalidArgument if the net needs other files; errors of running the model.
void ExportModel(const std::shared_ptr<const Model>& model, const std::string& path);

}  // namespace crema
