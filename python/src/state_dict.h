// Parameters under PyTorch's names.
#pragma once

#include "arrays.h"
#include "runtime/torch_modules.h"

namespace crema::python {

// Returns what to_torch_state_dict returns: a dict of new tensors of PyTorch, or NumPy arrays where
// it is not installed. Throws like ToTorchEntries. Requires the GIL.
nb::object TorchEntriesOf(const Plan& plan, const Weights& weights);

}  // namespace crema::python
