#include "math/cpu/onednn/pieces.h"
#include "math/format_copy.h"

namespace crema {
namespace {

using dnnl::memory;

memory::desc DescOf(const Shape& shape, MemoryFormat format) {
  const auto type = format.type == DType::kBF16 ? memory::data_type::bf16 : memory::data_type::f32;
  const auto tag = format.layout == Layout::kNHWC   ? memory::format_tag::nhwc
                   : format.layout == Layout::kNCHW ? memory::format_tag::nchw
                                                    : onednn::BlockedTag();
  return {{shape[0], shape[1], shape[2], shape[3]}, type, tag};
}

}  // namespace

struct FormatCopy::Parts {
  int threads;
  onednn::Runner run;
};

FormatCopy::FormatCopy(int threads, const Shape& shape, MemoryFormat from, MemoryFormat to) {
  const onednn::ThreadCount count(threads);
  parts_ = onednn::Try("conversion of a format", [&] {
    return std::make_unique<Parts>(
        Parts{threads, onednn::MakeReorder(DescOf(shape, from), DescOf(shape, to), false)});
  });
}

FormatCopy::~FormatCopy() = default;

void FormatCopy::Run(const void* x, void* y) {
  const onednn::ThreadCount count(parts_->threads);
  onednn::Try("conversion of a format", [&] { onednn::RunReorder(&parts_->run, x, y); });
}

}  // namespace crema
