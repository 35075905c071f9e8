// Trilu: the elements that it keeps. See trilu.cc.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/host_device.h"
#include "crema.pb.h"
#include "graph/layer.h"

namespace crema {

struct Triangle {
  Triangle(const Layer& layer, const Shape& x) : rows(x[x.axes() - 2]), columns(x[x.axes() - 1]) {
    const TriluParameter& trilu = layer.param().trilu_param();
    upper = trilu.upper();
    k = std::clamp(trilu.k(), -rows - 1, columns + 1);  // those beyond keep all or nothing
  }

  // Returns the first kept column of row i (`upper`), or the first that is not kept.
  CREMA_HOST_DEVICE int64_t Border(int64_t i) const {
    const int64_t border = upper ? i + k : i + k + 1;
    return border < 0 ? 0 : border > columns ? columns : border;
  }

  int64_t rows, columns, k;
  bool upper;
};

}  // namespace crema
