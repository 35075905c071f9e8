// Reads the nets of models/, from which jobs are made.
#pragma once

#include <optional>
#include <string>

#include "crema.pb.h"
#include "new/pictures.h"

namespace crema::tools {

struct ZooModel {
  std::string name = {};
  std::string folder = {};  // "models/lenet", or that of --model, for messages
  PictureTask task = PictureTask::kClassify;
  NetParameter net = {};  // train_val.prototxt
  SolverParameter solver = {};
  int channels = 0;  // of the input
  int height = 0;    //
  int width = 0;     //
};

// Reads models/`name`, or the folder `name` if it has a slash, with train_val.prototxt,
// deploy.prototxt and solver.prototxt. Throws kInvalidArgument for an unknown name or a net for
// another task, which lists those for `task`; and what ReadNet throws.
ZooModel ReadZooModel(const std::string& name, PictureTask task);

}  // namespace crema::tools
