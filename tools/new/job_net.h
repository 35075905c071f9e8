// Makes the net of a job from that of its model.
#pragma once

#include "crema.pb.h"
#include "new/job.h"

namespace crema::tools {

// Returns the model's net with the classes of the job, which reads the pictures of the job. Layers
// whose parameters the weights of the job do not fit have another name. Throws kUnsupported for a
// model that cannot be changed so.
NetParameter MakeJobNet(const Job& job);

}  // namespace crema::tools
