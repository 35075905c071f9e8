// Form of the images that a data layer outputs: floats, the bytes that its parameters request, or
// the bytes that a plan for a GPU uploads (graph/byte_source.h).
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "core/tensor.h"
#include "crema.pb.h"
#include "data/batches/batch_filler.h"
#include "graph/byte_source.h"
#include "graph/layer.h"

namespace crema {

struct ImageForm {
  bool bytes = false;
  bool uploads = false;  // bytes of the plan, not of the parameters: mirrored after the layer
  bool places = false;   // the last output holds placements

  // Returns the number of outputs that the text of the net has.
  size_t TopsOf(const InferContext& context) const {
    return context.output_count - (places ? 1 : 0);
  }
  // Returns info with the outputs: images of C x H x W as `sample`, labels, and those that the text
  // of the net does not have.
  LayerInfo InfoOf(const InferContext& context, int64_t batch, const Shape& sample,
                   const Shape& labels) const;
  // As crema::BatchFillerOptions, for this form.
  BatchFiller::Options BatchFillerOptions(std::span<const BlobSpec> outputs,
                                          const TransformationParameter& transform, uint64_t seed,
                                          const std::string& layer) const;
};

// Returns the form that the parameters of a data layer request.
ImageForm WrittenForm(const LayerParameter& param);
// Returns the form of the layer in ByteParts. Its placements are needed to mirror, and to subtract
// a mean image from cropped samples.
ImageForm UploadedForm(const LayerParameter& param);

// Returns why the parameters of such a layer exclude uploads (ByteSource::WhyNoBytes); empty if
// they do not.
std::string WhyNotUploaded(const LayerParameter& param, Phase phase);
// Such a reason for data sets of records.
inline constexpr const char* kFirstHoldsFloats = "the first record holds floats";
// Returns all but ByteParts::source.
ByteParts PartsAfterSource(const LayerParameter& param);

}  // namespace crema
