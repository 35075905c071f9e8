// Whether a data layer gives the same batches for any number of threads and from any sample on.
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

// The bytes of each sample, over all outputs, of so many batches from a position on.
inline std::vector<std::string> SamplesFrom(LayerRunner* runner, uint64_t position, int batches) {
  LayerState state;
  state.set_position(position);
  runner->state().Restore(state);
  std::vector<std::string> samples;
  for (int n = 0; n < batches; ++n) {
    runner->Forward();
    const auto batch = static_cast<size_t>(runner->outputs[0].shape()[0]);
    const size_t first = samples.size();
    samples.resize(first + batch);
    for (const Tensor& output : runner->outputs) {
      const auto* bytes = static_cast<const char*>(output.view().raw());
      const size_t size = output.view().bytes() / batch;
      for (size_t i = 0; i < batch; ++i) samples[first + i].append(bytes + i * size, size);
    }
  }
  return samples;
}

// What a run may be resumed at. What takes the place of a bad sample depends on its batch, so there
// runs are resumed between batches, as snapshots are.
enum class Resume { kAtAnySample, kBetweenBatches };

// `layer` is its text without pipeline_param, `pipeline` what stands in that besides `threads`.
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
