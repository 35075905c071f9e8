// Correlation against its formula on padded maps, written as plain loops.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "core/strings.h"
#include "support/layer_expect.h"

namespace crema::test {
namespace {

struct Numbers {
  int pad, kernel, displacement, stride1, stride2;
  bool subtracts = false;
};

constexpr int kMapsChannels = 2, kMapsHeight = 6, kMapsWidth = 7;

Values Correlated(const Numbers& n, const Values& a, const Values& b) {
  // An element of a padded map.
  const auto at = [&](const Values& map, int c, int y, int x) {
    y -= n.pad;
    x -= n.pad;
    if (y < 0 || y >= kMapsHeight || x < 0 || x >= kMapsWidth) return 0.0;
    return map[size_t((c * kMapsHeight + y) * kMapsWidth + x)];
  };
  const int radius = n.kernel / 2, border = n.displacement + radius;
  const int reach = n.displacement / n.stride2;
  Values y;
  for (int down = -reach; down <= reach; ++down) {
    for (int across = -reach; across <= reach; ++across) {
      // Centres of patches that stay inside with each displacement.
      for (int cy = border; cy < kMapsHeight + 2 * n.pad - border; cy += n.stride1) {
        for (int cx = border; cx < kMapsWidth + 2 * n.pad - border; cx += n.stride1) {
          double sum = 0;
          for (int c = 0; c < kMapsChannels; ++c) {
            for (int j = -radius; j <= radius; ++j) {
              for (int i = -radius; i <= radius; ++i) {
                const double first = at(a, c, cy + j, cx + i);
                const double second =
                    at(b, c, cy + j + down * n.stride2, cx + i + across * n.stride2);
                sum += n.subtracts ? std::abs(first - second) : first * second;
              }
            }
          }
          y.push_back(sum / (kMapsChannels * n.kernel * n.kernel));
        }
      }
    }
  }
  return y;
}

TEST(CorrelationTest, ComparesPatchesOverDisplacements) {
  Values a, b;
  for (int i = 0; i < kMapsChannels * kMapsHeight * kMapsWidth; ++i) {
    a.push_back((i * 17 % 23) / 4.0 - 2);
    b.push_back((i * 13 % 29) / 4.0 - 3);
  }
  for (Numbers n : {Numbers{2, 1, 2, 1, 1}, Numbers{3, 3, 2, 2, 1}, Numbers{4, 1, 4, 1, 2},
                    Numbers{3, 1, 3, 2, 2}, Numbers{0, 3, 1, 1, 1}, Numbers{5, 5, 3, 3, 2}}) {
    for (const bool subtracts : {false, true}) {
      n.subtracts = subtracts;
      const std::string fields =
          StrCat("pad: ", n.pad, " kernel_size: ", n.kernel, " max_displacement: ", n.displacement,
                 " stride_1: ", n.stride1, " stride_2: ", n.stride2);
      SCOPED_TRACE(fields);
      const Blob first{{1, kMapsChannels, kMapsHeight, kMapsWidth}, a}, second{first.shape, b};
      ExpectNear(
          CallBuiltin("Correlation",
                      {.prototxt = StrCat("correlation_param { ", fields,
                                          subtracts ? " correlation_type: SUBTRACT }" : " }"),
                       .inputs = {first, second},
                       .dtype = DType::kF64})
              .outputs[0],
          Correlated(n, a, b));
    }
  }
}

}  // namespace
}  // namespace crema::test
