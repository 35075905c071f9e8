// A model as one file: what `deploy export` does.
#pragma once

#include <memory>
#include <string>

#include "inference/model.h"

namespace crema {

// Writes the net without what is not needed to use it, its weights, its card and a recorded run;
// reads the file back and checks the recording; and only then gives it its name, atomically.
// Throws kIoFailure; kInvalidArgument where the net needs other files; what running the model
// throws.
void ExportModel(const std::shared_ptr<const Model>& model, const std::string& path);

}  // namespace crema
