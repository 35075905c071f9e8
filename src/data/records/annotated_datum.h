// Records that hold an AnnotatedDatum: an image and the boxes of its objects.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "crema.pb.h"
#include "data/augment/box.h"
#include "data/records/datum.h"

namespace crema {

// Parses and decodes, reusing its memory. Thread safety: one thread at a time.
class AnnotatedDatumReader {
 public:
  AnnotatedDatumReader(const std::string& data_set, ColorMode mode)
      : data_set_(data_set), reader_(data_set, mode) {}

  // The result is valid until the next call and while `value` lives. Throws what DatumReader
  // throws, and kDataLoss, naming data set and key, for a record that is not an AnnotatedDatum or
  // has an invalid box.
  PixelView Read(std::string_view key, std::string_view value);

  // Objects of the last record.
  const std::vector<AnnotatedBox>& objects() const { return objects_; }
  bool has_type() const { return datum_.has_type(); }
  int label() const { return reader_.label(); }

 private:
  void TakeObjects(std::string_view key);

  const std::string data_set_;
  DatumReader reader_;
  AnnotatedDatum datum_;
  std::vector<AnnotatedBox> objects_;
};

// Returns why a box is invalid; empty if it is valid. A box may lie partly outside of the image.
std::string FindBoxFault(const NormalizedBBox& box);

// Counts the boxes in a serialized AnnotatedDatum, without its image; 0 if it is damaged.
uint64_t CountBoxes(std::string_view value);

// Returns the labels of a LabelMap file. Throws kInvalidArgument without any, or what ReadLabelMap
// throws.
std::set<int> ReadLabels(const std::string& path);

}  // namespace crema
