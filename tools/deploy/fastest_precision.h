// --precision=auto: the fastest precision whose answers stay near those of single precision.
#pragma once

#include <functional>
#include <memory>

#include "crema.pb.h"
#include "inference/model.h"

namespace crema::tools {

// Returns `single`, or the same net in BF16 or INT8 if it is faster here and its answers on the
// pictures of --calibrate agree (--agreement, --most_error). Prints a table. `make` makes a model
// from a net. Throws what QuantizeOnPictures throws.
std::shared_ptr<const Model> FastestPrecision(
    const std::shared_ptr<const Model>& single,
    const std::function<std::shared_ptr<const Model>(NetParameter net)>& make);

}  // namespace crema::tools
