// Base of BatchNorm and BN: normalises channels by statistics of the batch or by running ones, with
// an optional scale and shift.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/implementation.h"
#include "layers/channel_affine.h"
#include "layers/normalization/group_normalize.h"
#include "layers/normalization/stored_statistics.h"
#include "math/bias_activation.h"

namespace crema {

struct FusedNormState;

struct BatchNormRule {
  static constexpr int kNone = -1;

  int64_t axis = 1;  // of the channels; inputs without it are one channel
  double eps = 0;
  FusedRelu relu = {};

  struct Blob {
    std::string role;
    Filler filler;
    bool statistic = false;
    bool single = false;  // one value, not one per channel
  };
  std::vector<Blob> blobs;
  int blob_axes = 1;  // shape: C, 1 x C, or ones around C on its axis
  // Indices of these blobs.
  int mean = kNone;
  int variance = kNone;
  int factor = kNone;  // divides stored mean and variance; 0 makes them 0
  int scale = kNone;
  int shift = kNone;

  enum class Stored { kInTest, kAlways, kNever };
  Stored stored = Stored::kInTest;  // when the running statistics are used
  bool identity = false;            // no statistics: scale and shift only
  bool sync = false;  // the batch is that of all ranks of the run; changes nothing on one rank

  // If the statistics of the batch are used: running = keep * running + add * new.
  double keep = 0;
  double add = 0;
  bool unbiased = false;        // the running variance divides by N - 1
  bool first_replaces = false;  // while the factor is 0, new statistics replace the running ones
  double factor_add = 0;        // factor = keep * factor + factor_add; 0 sets it to 1
};

class BatchNormBase : public Layer, public ChannelAffine {
 public:
  LayerInfo Infer(const InferContext& context) const final;
  void Forward(const ForwardArgs& args) const final { Run(args, {}); }
  void Backward(const BackwardArgs& args) const final { Run(args, {}); }
  size_t ForwardScratch(const InferContext& context, const LayerInfo& info,
                        int threads) const final;
  size_t BackwardScratch(const InferContext& context, const LayerInfo& info,
                         int threads) const final;

  bool IsChannelAffine(Phase phase) const final;
  size_t AffineBlobs() const final { return rule_.blobs.size(); }
  void ReadChannelAffine(std::span<const ConstTensorView> parameters, std::span<double> factor,
                         std::span<double> shift) const final;

  const BatchNormRule& rule() const { return rule_; }
  bool UsesBatch(Phase phase) const;
  // Returns true if y differs from the normalised input, which is then saved for backward.
  bool KeepsNormal() const;
  NormLayout Layout(const Shape& input, MemoryFormat format = {}) const;
  // Returns the update of the running statistics by a batch of `n` elements per channel.
  StoredUpdate UpdateBy(double n) const {
    return {.keep = rule_.keep,
            .add = rule_.add,
            .correction = rule_.unbiased && n > 1 ? n / (n - 1) : 1,
            .first_replaces = rule_.first_replaces,
            .factor_add = rule_.factor_add};
  }

  // Returns true if an implementation can also do the layers of `query.fused` (NormEpilogue): the
  // statistics are those of the batch, or no backward pass follows.
  bool CanFuse(const OpDesc& query) const;
  // Returns the LayerInfo with these layers fused. Saves means and inverse deviations of the
  // channels on axis 1.
  static LayerInfo FusedInfo(const OpDesc& query);

  // Returns implementation "blocked": f32, channels on axis 1 that fill whole blocks; and the same
  // for bfloat16 blobs, blocked and channels last, for layers without a scale and shift of their
  // own. Fuse a Scale and a ReLU; with running statistics, only if no backward pass follows.
  static std::vector<ImplementationPtr> BlockedImplementations();

 protected:
  BatchNormBase(const LayerParameter& param, BatchNormRule rule)
      : Layer(param), rule_(std::move(rule)) {}

 private:
  template <typename T>
  class Blocked;

  // Returns true if the layer has only mean and variance: no scale, shift or ReLU of its own.
  bool GoesByChannels() const { return !KeepsNormal() && !rule_.identity; }
  static size_t FusedScratch(const OpDesc& query);
  void SetAffine(std::span<const ConstTensorView> parameters, const double* mean,
                 const double* inverse, FusedNormState* state) const;
  template <typename T>
  void RunByChannels(const ForwardArgs& args) const;
  template <typename T>
  void RunByChannels(const BackwardArgs& args) const;
  template <typename T>
  void RunFused(const BackwardArgs& args) const;
  template <typename T>
  void RunAlone(const BackwardArgs& args) const;
  void Run(const ForwardArgs& args, MemoryFormat format) const;
  void Run(const BackwardArgs& args, MemoryFormat format) const;
  template <typename T>
  void ReadStored(std::span<const ConstTensorView> parameters, int64_t channels, double* mean,
                  double* variance) const;
  // Returns the ranks whose batches are normalised together; null: this one alone.
  RankSums* SyncOf(const ExecContext& context, Phase phase) const {
    return rule_.sync && UsesBatch(phase) ? context.rank_sums() : nullptr;
  }
  // Completes the moments of this rank's batch, of `size` elements per channel, by those of the
  // other ranks, and updates the running statistics. `moments` has room for means, variances and
  // one more.
  template <typename T>
  void UseMoments(const ForwardArgs& args, int64_t size, std::span<double> moments) const;

  const BatchNormRule rule_;
};

}  // namespace crema
