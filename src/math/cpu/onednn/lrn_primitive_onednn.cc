#include <optional>

#include "math/cpu/onednn/map_runner.h"
#include "math/lrn_primitive.h"

namespace crema {

namespace {

using ForwardDesc = dnnl::lrn_forward::primitive_desc;
using BackwardDesc = dnnl::lrn_backward::primitive_desc;

constexpr auto kAcross = dnnl::algorithm::lrn_across_channels;

struct Numbers {
  explicit Numbers(const LrnPrimitiveConfig& c)
      : x({c.batch, c.shape.channels, c.shape.height, c.shape.width}, dnnl::memory::data_type::f32,
          onednn::BlockedTag()),
        alpha(static_cast<float>(c.param.alpha)),
        beta(static_cast<float>(c.param.beta)),
        k(static_cast<float>(c.param.k)) {}
  dnnl::memory::desc x;
  float alpha, beta, k;
};

ForwardDesc MakeForwardDesc(const LrnPrimitiveConfig& c) {
  const Numbers n(c);
  const auto kind =
      c.backward ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  const dnnl::primitive_attr attr = onednn::Attributes();
#if DNNL_VERSION_MAJOR >= 3
  return {onednn::Cpu(), kind, kAcross, n.x, n.x, c.param.size, n.alpha, n.beta, n.k, attr};
#else
  return {{kind, kAcross, n.x, c.param.size, n.alpha, n.beta, n.k}, attr, onednn::Cpu()};
#endif
}

BackwardDesc MakeBackwardDesc(const LrnPrimitiveConfig& c, const ForwardDesc& forward) {
  const Numbers n(c);
  const dnnl::primitive_attr attr = onednn::Attributes();
#if DNNL_VERSION_MAJOR >= 3
  return {onednn::Cpu(), kAcross, n.x, n.x, n.x, c.param.size, n.alpha, n.beta, n.k, forward, attr};
#else
  const dnnl::lrn_backward::desc desc(kAcross, n.x, n.x, c.param.size, n.alpha, n.beta, n.k);
  return {desc, attr, onednn::Cpu(), forward};
#endif
}

}  // namespace

struct LrnPrimitive::Parts {
  explicit Parts(const LrnPrimitiveConfig& c)
      : threads(c.threads), forward("LRN", c.threads, [&] { return MakeForwardDesc(c); }) {
    if (!c.backward) return;
    const onednn::ThreadCount count(threads);
    onednn::Try("LRN", [&] { backward.emplace(MakeBackwardDesc(c, forward.desc())); });
  }

  const int threads;
  onednn::MapRunner<dnnl::lrn_forward> forward;
  std::optional<BackwardDesc> backward;
  onednn::Runner run_backward;
};

LrnPrimitive::LrnPrimitive(const LrnPrimitiveConfig& config)
    : parts_(std::make_unique<Parts>(config)) {}

LrnPrimitive::~LrnPrimitive() = default;

bool LrnPrimitive::IsReference() const {
  return onednn::IsReference(parts_->forward.desc()) ||
         (parts_->backward && onednn::IsReference(*parts_->backward));
}

size_t LrnPrimitive::WorkspaceBytes() const { return parts_->forward.WorkspaceBytes(); }
size_t LrnPrimitive::ForwardScratch() const { return parts_->forward.Scratch(); }
size_t LrnPrimitive::BackwardScratch() const {
  return parts_->backward ? onednn::ScratchOf(*parts_->backward) : 0;
}

void LrnPrimitive::Prepare() {
  parts_->forward.Prepare();
  Parts& p = *parts_;
  if (!p.backward || p.run_backward) return;
  const onednn::ThreadCount count(p.threads);
  onednn::Try("LRN", [&] { p.run_backward = onednn::MakeRunner<dnnl::lrn_backward>(*p.backward); });
}

void LrnPrimitive::Forward(const float* x, float* y, void* workspace,
                           std::span<std::byte> scratch) {
  parts_->forward.Forward(x, y, workspace, scratch);
}

void LrnPrimitive::Backward(const float* x, const void* workspace, const float* dy, float* dx,
                            std::span<std::byte> scratch) {
  Prepare();
  Parts& p = *parts_;
  CREMA_CHECK(p.backward);
  const onednn::ThreadCount count(p.threads);
  onednn::Try("gradient of LRN", [&] {
    p.run_backward.Set(DNNL_ARG_SRC, x);
    p.run_backward.Set(DNNL_ARG_DIFF_DST, dy);
    p.run_backward.Set(DNNL_ARG_DIFF_SRC, dx);
    p.run_backward.Set(DNNL_ARG_SCRATCHPAD, scratch.data());
    p.run_backward.Set(DNNL_ARG_WORKSPACE, workspace);
    p.run_backward.Run();
  });
}

}  // namespace crema
