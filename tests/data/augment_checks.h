// Random draws and boxes, for tests of augmentations.
#pragma once

#include <gtest/gtest.h>

#include "core/rng.h"
#include "data/augment/box.h"
#include "data/augment/draws.h"

namespace crema::testing {

inline Draws DrawsOf(uint64_t sample) { return Draws(RandomStream(1, 2, sample)); }

inline void ExpectBox(const Box& box, const Box& expected) {
  EXPECT_NEAR(box.xmin, expected.xmin, 1e-9);
  EXPECT_NEAR(box.ymin, expected.ymin, 1e-9);
  EXPECT_NEAR(box.xmax, expected.xmax, 1e-9);
  EXPECT_NEAR(box.ymax, expected.ymax, 1e-9);
}

}  // namespace crema::testing
