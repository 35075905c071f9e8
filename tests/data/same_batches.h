// Checks that a data layer returns the same batches for any number of threads and from any sample
// on.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/rng.h"
#include "core/strings.h"
#include "data/layer_runner.h"

namespace crema::testing {

// Fields of pipeline_param for each order of samples.
constexpr const char* kSampleOrders[] = {"", "shuffle: true", "shuffle_buffer: 4"};

// Returns true for rows of boxes, which begin with the index of their image.
inline bool HoldsBoxes(const Shape& shape) {
  return shape.axes() == 4 && shape[0] == 1 && shape[1] == 1 && shape[3] == 8;
}

// Appends each box to its image; the first image is *samples.
inline void AppendBoxes(const Tensor& output, int64_t rows, std::string* samples) {
  const float* row = output.view().data<float>();
  for (const float* const end = row + 8 * rows; row < end; row += 8) {
    if (row[0] < 0) continue;  // no boxes
    samples[static_cast<size_t>(row[0])].append(reinterpret_cast<const char*>(row + 1),
                                                7 * sizeof(float));
  }
}

// Returns the bytes of each sample, over all outputs, for the next batches.
inline std::vector<std::string> NextSamples(LayerRunner* runner, int batches) {
  std::vector<std::string> samples;
  for (int n = 0; n < batches; ++n) {
    runner->Forward();
    const auto batch = static_cast<size_t>(runner->outputs[0].shape()[0]);
    const size_t first = samples.size();
    samples.resize(first + batch);
    for (size_t k = 0; k < runner->outputs.size(); ++k) {
      const Tensor& output = runner->outputs[k];
      if (k > 0 && HoldsBoxes(runner->shapes[k])) {
        AppendBoxes(output, runner->shapes[k][2], &samples[first]);
        continue;
      }
      const auto* bytes = static_cast<const char*>(output.view().raw());
      const size_t size = output.view().bytes() / batch;
      for (size_t i = 0; i < batch; ++i) samples[first + i].append(bytes + i * size, size);
    }
  }
  return samples;
}

// The same from a given position on.
inline std::vector<std::string> SamplesFrom(LayerRunner* runner, uint64_t position, int batches) {
  LayerState state;
  state.set_position(position);
  runner->state().Restore(state);
  return NextSamples(runner, batches);
}

// The positions at which a run may be resumed. The replacement of a bad sample depends on its
// batch, so such runs are resumed between batches, as from snapshots.
enum class Resume { kAtAnySample, kBetweenBatches };

// `layer` is its text without pipeline_param; `pipeline` contains its fields except `threads`.
inline void ExpectSameBatches(const Registry& registry, const std::string& layer,
                              const std::string& pipeline = "", int batches = 12,
                              Resume resume = Resume::kAtAnySample) {
  const auto text = [&](int threads) {
    return StrCat(layer, " pipeline_param { threads: ", threads, " ", pipeline, " }");
  };
  LayerRunner reference(registry, text(1));
  const std::vector<std::string> expected = SamplesFrom(&reference, 0, batches);
  const RandomStream random(1, HashName(layer));
  for (const int threads : {1, 2, 3, 8}) {
    LayerRunner runner(registry, text(threads));
    ASSERT_EQ(SamplesFrom(&runner, 0, batches), expected) << threads << " threads";
    for (uint64_t i = 0; i < 3; ++i) {
      const auto half = static_cast<uint32_t>(expected.size() / 2);
      const uint32_t step =
          resume == Resume::kAtAnySample ? 1 : half * 2 / static_cast<uint32_t>(batches);
      const uint32_t from = random.Below(i, half / step) * step;
      LayerRunner resumed(registry, text(threads));
      const std::vector<std::string> samples = SamplesFrom(&resumed, from, batches / 2);
      ASSERT_TRUE(std::equal(samples.begin(), samples.end(), expected.begin() + from))
          << threads << " threads, from sample " << from;
    }
  }
}

}  // namespace crema::testing
