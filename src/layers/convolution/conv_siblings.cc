#include "layers/convolution/conv_siblings.h"

#include <algorithm>
#include <span>
#include <utility>

namespace crema {
namespace {

const Convolution& ConvolutionOf(const SiblingLayer& sibling) {
  return static_cast<const Convolution&>(*sibling.layer);
}

int64_t ChannelsOf(const SiblingLayer& sibling) {
  return sibling.layer->param().convolution_param().num_output();
}

bool IsPointwise(const ConvGeometry& g) {
  return g.groups == 1 && g.channel_axis == 1 && g.window.IsPointwise();
}

bool DoTheSame(const ConvEpilogue& a, const ConvEpilogue& b) {
  return a.affine() == b.affine() && a.relu().on == b.relu().on && a.relu().slope == b.relu().slope;
}

int64_t DepthOf(const KernelQuery& query) { return query.context.inputs[0].shape[1]; }

}  // namespace

bool AreAlikeSiblings(const KernelQuery& query) {
  const SiblingLayer& first = query.siblings[0];
  const ConvEpilogue same(ConvolutionOf(first), first.absorbed);
  return std::ranges::all_of(query.siblings, [&](const SiblingLayer& sibling) {
    const ConvEpilogue epilogue(ConvolutionOf(sibling), sibling.absorbed);
    return epilogue.possible() && !epilogue.sum() && DoTheSame(epilogue, same) &&
           ConvolutionOf(sibling).has_bias() == ConvolutionOf(first).has_bias() &&
           IsPointwise(MakeConvGeometry(*sibling.layer, query.context.inputs[0].shape));
  });
}

int64_t MergedChannels(const KernelQuery& query) {
  if (query.siblings.empty()) return query.layer.param().convolution_param().num_output();
  int64_t channels = 0;
  for (const SiblingLayer& sibling : query.siblings) channels += ChannelsOf(sibling);
  return channels;
}

ConvSiblings::ConvSiblings(const KernelQuery& query)
    : has_bias_(ConvolutionOf(query.siblings[0]).has_bias()) {
  for (const SiblingLayer& sibling : query.siblings) {
    const ConvEpilogue epilogue(ConvolutionOf(sibling), sibling.absorbed);
    members_.push_back({epilogue, static_cast<size_t>(ChannelsOf(sibling)),
                        (has_bias_ ? 2U : 1U) + epilogue.AffineBlobs()});
  }
  const auto channels = static_cast<size_t>(MergedChannels(query));
  weight_.resize(channels * static_cast<size_t>(DepthOf(query)));
  if (has_bias_) bias_.resize(channels);
  if (!members_[0].epilogue.affine()) return;
  factor_.resize(channels);
  shift_.resize(channels);
}

size_t ConvSiblings::Bytes(const KernelQuery& query) {
  return static_cast<size_t>(MergedChannels(query) * (DepthOf(query) + 3)) * sizeof(float);
}

ConvLearned ConvSiblings::Read(const ForwardArgs& args) {
  const ConvLearned learned{.weight = weight_.data(),
                            .bias = has_bias_ ? bias_.data() : nullptr,
                            .factor = factor_.empty() ? nullptr : factor_.data(),
                            .shift = shift_.empty() ? nullptr : shift_.data()};
  if (args.weights_fixed && std::exchange(read_, true)) return learned;
  std::span<const ConstTensorView> blobs = args.learned;
  size_t weights = 0;
  size_t channel = 0;
  for (const Member& member : members_) {
    const auto weight = blobs[0].span<float>();
    std::ranges::copy(weight, weight_.begin() + static_cast<std::ptrdiff_t>(weights));
    weights += weight.size();
    if (has_bias_) {
      std::ranges::copy(blobs[1].span<float>(),
                        bias_.begin() + static_cast<std::ptrdiff_t>(channel));
    }
    if (!factor_.empty()) {
      member.epilogue.ReadAffine(blobs.first(member.blobs).subspan(has_bias_ ? 2 : 1),
                                 std::span(factor_).subspan(channel, member.channels),
                                 std::span(shift_).subspan(channel, member.channels));
    }
    channel += member.channels;
    blobs = blobs.subspan(member.blobs);
  }
  return learned;
}

}  // namespace crema
