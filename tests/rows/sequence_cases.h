// Random cases of layers that work on sequences, for row_cases.cc.
#pragma once

#include "rows/row_cases.h"

namespace crema::test {

RowCase AttentionCase(const LayerType& type, Draw& draw);
RowCase RecurrentCase(const LayerType& type, Draw& draw);
RowCase MatMulCase(const LayerType& type, Draw& draw);

}  // namespace crema::test
