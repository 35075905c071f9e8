// As what the images of a data layer leave it: numbers, the bytes that its text asks for, or the
// bytes that a plan for a GPU sends up (graph/byte_source.h).
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "core/tensor.h"
#include "crema.pb.h"
#include "data/batches/sample_writer.h"
#include "graph/byte_source.h"
#include "graph/layer.h"

namespace crema {

struct ImageForm {
  bool bytes = false;
  bool uploads = false;  // nobody asked for the bytes: they are mirrored behind the layer
  bool places = false;   // the last output takes placements

  // How many outputs the text knows.
  size_t TopsOf(const InferContext& context) const {
    return context.output_count - (places ? 1 : 0);
  }
  // Output 0; `sample` is C x H x W, `dtype` that of the net.
  BlobSpec Images(int64_t batch, const Shape& sample, DType dtype) const;
  // Adds what the text does not know.
  void AddPlacements(int64_t batch, LayerInfo* info) const;
  // As the function of that name.
  SampleWriter::Options WriterOptions(std::span<const BlobSpec> outputs,
                                      const TransformationParameter& transform, uint64_t seed,
                                      const std::string& layer) const;
};

// What the text of a data layer asks for.
ImageForm WrittenForm(const LayerParameter& param);
// That of the layer in ByteParts: its placements are needed to mirror, and to subtract a mean image
// where samples are cropped.
ImageForm UploadedForm(const LayerParameter& param);

// Why the text of such a layer leaves no choice (ByteSource::WhyNoBytes); empty: it does.
std::string WhyNotUploaded(const LayerParameter& param, Phase phase);
// The same of data sets of records.
inline constexpr const char* kFirstHoldsFloats = "the first record holds floats";
// All but ByteParts::source.
ByteParts PartsBehind(const LayerParameter& param);

}  // namespace crema
