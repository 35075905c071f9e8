// Random cases of layers that work on sequences, for implementation_cases.cc.
#pragma once

#include "implementations/implementation_cases.h"

namespace crema::test {

ImplementationCase AttentionCase(const LayerType& type, Draw& draw);
ImplementationCase RecurrentCase(const LayerType& type, Draw& draw);
ImplementationCase MatMulCase(const LayerType& type, Draw& draw);

}  // namespace crema::test
