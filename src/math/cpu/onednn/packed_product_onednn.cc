#include <optional>

#include "math/cpu/onednn/packed_matrix.h"
#include "math/cpu/onednn/pieces.h"
#include "math/packed_product.h"

namespace crema {

using dnnl::memory;
using onednn::Args;
using onednn::MakeReorder;
using onednn::PackedMatrix;
using onednn::Runner;
using onednn::ScratchOf;

namespace {

using ForwardDesc = dnnl::inner_product_forward::primitive_desc;
using Tag = memory::format_tag;

memory::desc Matrix(int64_t rows, int64_t columns, Tag tag) {
  return {{rows, columns}, memory::data_type::f32, tag};
}

struct Blobs {
  explicit Blobs(const PackedProductConfig& c)
      : x(Matrix(c.rows, c.inputs, Tag::ab)),
        weight(Matrix(c.outputs, c.inputs, Tag::any)),
        y(Matrix(c.rows, c.outputs, Tag::ab)) {
    if (c.bias) bias = memory::desc({c.outputs}, memory::data_type::f32, Tag::a);
  }
  memory::desc x, weight, bias, y;
};

ForwardDesc MakeForwardDesc(const PackedProductConfig& c) {
  const Blobs b(c);
  constexpr auto kKind = dnnl::prop_kind::forward_inference;
  dnnl::primitive_attr attr = onednn::Attributes();
  if (c.add) {
    dnnl::post_ops ops;
    ops.append_sum(1);
    attr.set_post_ops(ops);
  }
#if DNNL_VERSION_MAJOR >= 3
  return {onednn::Cpu(), kKind, b.x, b.weight, b.bias, b.y, attr};
#else
  return {{kKind, b.x, b.weight, b.bias, b.y}, attr, onednn::Cpu()};
#endif
}

}  // namespace

struct PackedProduct::Parts {
  explicit Parts(const PackedProductConfig& c)
      : config(c),
        plain(Matrix(c.outputs, c.inputs, c.transposed ? Tag::ba : Tag::ab)),
        forward(MakeForwardDesc(c)) {}

  bool Repacks() const { return forward.weights_desc() != plain; }
  size_t RepackedBytes() const { return Repacks() ? forward.weights_desc().get_size() : 0; }
  void MakePrimitives();

  const PackedProductConfig config;
  const memory::desc plain;  // the weights as a caffemodel holds them
  const ForwardDesc forward;
  std::optional<dnnl::stream> stream;
  Runner run, pack;
  std::shared_ptr<PackedMatrix> packed;
  bool keeps = false;  // `packed` was made to be kept
};

void PackedProduct::Parts::MakePrimitives() {
  stream.emplace(onednn::Cpu());
  const auto memory_of = onednn::WithoutData;
  Args args{{DNNL_ARG_SRC, memory_of(forward.src_desc())},
            {DNNL_ARG_WEIGHTS, memory_of(forward.weights_desc())},
            {DNNL_ARG_DST, memory_of(forward.dst_desc())},
            {DNNL_ARG_SCRATCHPAD, memory_of(forward.scratchpad_desc())}};
  if (config.bias) args.emplace(DNNL_ARG_BIAS, memory_of(forward.bias_desc()));
  run = Runner(dnnl::inner_product_forward(forward), std::move(args));
  if (!Repacks()) return;
  pack = MakeReorder(plain, forward.weights_desc(), false);
  if (packed == nullptr) packed = std::make_shared<PackedMatrix>(forward.weights_desc());
}

PackedProduct::PackedProduct(const PackedProductConfig& config) {
  CREMA_CHECK(!config.add || (!config.bias && !config.relu.on));
  const onednn::ThreadCount threads(config.threads);
  parts_ = onednn::Try("inner product", [&] { return std::make_unique<Parts>(config); });
}

PackedProduct::~PackedProduct() = default;

size_t PackedProduct::PackedBytes() const { return parts_->RepackedBytes(); }

size_t PackedProduct::Scratch() const { return ScratchOf(parts_->forward); }

SharedPackedWeights PackedProduct::ExportPacked() const {
  return parts_->keeps ? parts_->packed : nullptr;
}

bool PackedProduct::ImportPacked(const SharedPackedWeights& shared) {
  const auto packed = std::dynamic_pointer_cast<const PackedMatrix>(shared);
  if (packed == nullptr || !parts_->Repacks() || packed->desc != parts_->forward.weights_desc()) {
    return false;
  }
  parts_->packed = std::const_pointer_cast<PackedMatrix>(packed);  // Forward leaves it as it is
  parts_->keeps = true;
  return true;
}

void PackedProduct::ForgetWeights() { parts_->keeps = false; }

void PackedProduct::Forward(const float* x, const float* weight, const float* bias, float* y,
                            bool keep_weights, std::span<std::byte> scratch) {
  Parts& p = *parts_;
  const onednn::ThreadCount threads(p.config.threads);
  onednn::Try("inner product", [&] {
    if (!p.stream) p.MakePrimitives();
    if (p.pack) {
      const bool packs = !keep_weights || !p.keeps;
      if (packs && p.packed.use_count() > 1) {  // others read it
        p.packed = std::make_shared<PackedMatrix>(p.forward.weights_desc());
      }
      float* kept = p.packed->values.view().data<float>();
      if (packs) {
        p.pack.Set(DNNL_ARG_FROM, weight);
        p.pack.Set(DNNL_ARG_TO, kept);
        p.pack.Run(*p.stream);
      }
      p.keeps = keep_weights;
      weight = kept;
    }
    p.run.Set(DNNL_ARG_WEIGHTS, weight);
    p.run.Set(DNNL_ARG_SRC, x);
    p.run.Set(DNNL_ARG_DST, y);
    p.run.Set(DNNL_ARG_SCRATCHPAD, scratch.data());
    if (p.config.bias) p.run.Set(DNNL_ARG_BIAS, bias);
    p.run.Run(*p.stream);
  });
  // Not by oneDNN, whose ReLU makes 0 of NaN: broken data would go unnoticed.
  if (p.config.relu.on) {
    AddColumnBiasRelu<float>(p.config.rows, p.config.outputs, nullptr, p.config.relu, y);
  }
}

}  // namespace crema
