#include <optional>

#include "math/cpu/onednn/pieces.h"
#include "math/pool_primitive.h"

namespace crema {

using dnnl::memory;
using onednn::Pieces;
using onednn::Runner;
using onednn::ScratchOf;

namespace {

using ForwardDesc = dnnl::pooling_forward::primitive_desc;
using BackwardDesc = dnnl::pooling_backward::primitive_desc;
using Rule = PoolPrimitiveConfig::Rule;
using Dims = memory::dims;

dnnl::algorithm AlgorithmOf(Rule rule) {
  if (rule == Rule::kMax) return dnnl::algorithm::pooling_max;
  return rule == Rule::kMeanOfWindow ? dnnl::algorithm::pooling_avg_include_padding
                                     : dnnl::algorithm::pooling_avg_exclude_padding;
}

struct Geometry {
  explicit Geometry(const PoolPrimitiveConfig& c)
      : x(Blob(c, c.window.h.in, c.window.w.in)),
        y(Blob(c, c.window.h.out, c.window.w.out)),
        strides{c.window.h.stride, c.window.w.stride},
        kernel{c.window.h.kernel, c.window.w.kernel},
        before{c.window.h.pad, c.window.w.pad},
        after{After(c.window.h), After(c.window.w)} {}

  static memory::desc Blob(const PoolPrimitiveConfig& c, int64_t height, int64_t width) {
    const auto type = c.halves ? memory::data_type::bf16 : memory::data_type::f32;
    return {{c.batch, c.channels, height, width}, type, onednn::BlockedTag()};
  }
  // Returns how far the last window reaches beyond the input; negative if it ends before.
  static int64_t After(const PoolAxis& axis) {
    return axis.Start(axis.out - 1) + axis.kernel - axis.in;
  }

  memory::desc x, y;
  Dims strides, kernel, before, after;
#if DNNL_VERSION_MAJOR >= 3
  Dims dilation{0, 0};
#endif
};

ForwardDesc MakeForwardDesc(const PoolPrimitiveConfig& c, dnnl::prop_kind kind) {
  const Geometry g(c);
  const dnnl::algorithm algorithm = AlgorithmOf(c.rule);
#if DNNL_VERSION_MAJOR >= 3
  return {onednn::Cpu(), kind,    algorithm,           g.x, g.y, g.strides, g.kernel, g.dilation,
          g.before,      g.after, onednn::Attributes()};
#else
  const dnnl::pooling_forward::desc desc(kind, algorithm, g.x, g.y, g.strides, g.kernel, g.before,
                                         g.after);
  return {desc, onednn::Attributes(), onednn::Cpu()};
#endif
}

BackwardDesc MakeBackwardDesc(const PoolPrimitiveConfig& c, const ForwardDesc& forward) {
  const Geometry g(c);
  const dnnl::algorithm algorithm = AlgorithmOf(c.rule);
#if DNNL_VERSION_MAJOR >= 3
  return {onednn::Cpu(), algorithm, g.x,     g.y,     g.strides,           g.kernel,
          g.dilation,    g.before,  g.after, forward, onednn::Attributes()};
#else
  const dnnl::pooling_backward::desc desc(algorithm, g.x, g.y, g.strides, g.kernel, g.before,
                                          g.after);
  return {desc, onednn::Attributes(), onednn::Cpu(), forward};
#endif
}

}  // namespace

struct PoolPrimitive::Parts {
  explicit Parts(const PoolPrimitiveConfig& c)
      : config(c),
        forward(MakeForwardDesc(c, c.backward ? dnnl::prop_kind::forward_training
                                              : dnnl::prop_kind::forward_inference)) {
    if (c.backward) backward.emplace(MakeBackwardDesc(c, forward));
  }

  bool HasIndex() const { return config.backward && config.rule == Rule::kMax; }
  void MakePrimitives();

  const PoolPrimitiveConfig config;
  const ForwardDesc forward;
  std::optional<BackwardDesc> backward;
  Runner run_forward, run_backward;
};

void PoolPrimitive::Parts::MakePrimitives() {
  run_forward = onednn::MakeRunner<dnnl::pooling_forward>(forward);
  if (backward) run_backward = onednn::MakeRunner<dnnl::pooling_backward>(*backward);
}

PoolPrimitive::PoolPrimitive(const PoolPrimitiveConfig& config) {
  const onednn::ThreadCount threads(config.threads);
  parts_ = onednn::Try("pooling", [&] { return std::make_unique<Parts>(config); });
}

PoolPrimitive::~PoolPrimitive() = default;

bool PoolPrimitive::IsReference() const {
  return onednn::IsReference(parts_->forward) ||
         (parts_->backward && onednn::IsReference(*parts_->backward));
}

int64_t PoolPrimitive::Images() const { return parts_->config.batch; }

size_t PoolPrimitive::IndexBytes() const {
  return parts_->HasIndex() ? parts_->forward.workspace_desc().get_size() : 0;
}

// Includes room for an unwanted index: oneDNN writes one whenever it can.
size_t PoolPrimitive::ForwardScratch() const {
  Pieces pieces(nullptr);
  pieces.Take(ScratchOf(parts_->forward));
  pieces.Take(IndexBytes());
  return pieces.used();
}

size_t PoolPrimitive::BackwardScratch() const {
  return parts_->backward ? ScratchOf(*parts_->backward) : 0;
}

void PoolPrimitive::Prepare() {
  if (parts_->run_forward) return;
  const onednn::ThreadCount threads(parts_->config.threads);
  onednn::Try("pooling", [&] { parts_->MakePrimitives(); });
}

void PoolPrimitive::Forward(const void* x, void* y, void* index, std::span<std::byte> scratch) {
  Prepare();
  Parts& p = *parts_;
  const onednn::ThreadCount threads(p.config.threads);
  Pieces pieces(scratch.data());
  void* own = pieces.Take<void>(ScratchOf(p.forward));
  void* unwanted = pieces.Take<void>(IndexBytes());
  onednn::Try("pooling", [&] {
    p.run_forward.Set(DNNL_ARG_SRC, x);
    p.run_forward.Set(DNNL_ARG_DST, y);
    p.run_forward.Set(DNNL_ARG_SCRATCHPAD, own);
    p.run_forward.Set(DNNL_ARG_WORKSPACE, index == nullptr ? unwanted : index);
    p.run_forward.Run();
  });
}

void PoolPrimitive::Backward(const void* index, const void* dy, void* dx,
                             std::span<std::byte> scratch) {
  Prepare();
  Parts& p = *parts_;
  CREMA_CHECK(p.backward);
  const onednn::ThreadCount threads(p.config.threads);
  onednn::Try("gradient of pooling", [&] {
    p.run_backward.Set(DNNL_ARG_DIFF_DST, dy);
    p.run_backward.Set(DNNL_ARG_DIFF_SRC, dx);
    p.run_backward.Set(DNNL_ARG_SCRATCHPAD, scratch.data());
    p.run_backward.Set(DNNL_ARG_WORKSPACE, index);
    p.run_backward.Run();
  });
}

}  // namespace crema
