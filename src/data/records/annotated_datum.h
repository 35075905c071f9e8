// Records of a data set that hold an AnnotatedDatum: an image, and boxes of objects in it.
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

  // Valid until the next call, and as long as `value` lives. Throws kDataLoss, naming the data set
  // and the key: not an AnnotatedDatum, a box that is none or lies outside of the image, besides
  // what DatumReader throws.
  PixelView Read(std::string_view key, std::string_view value);

  // Of the record that was read last.
  const std::vector<ObjectBox>& objects() const { return objects_; }
  bool has_type() const { return datum_.has_type(); }
  int label() const { return reader_.label(); }

 private:
  void TakeObjects(std::string_view key);

  const std::string data_set_;
  DatumReader reader_;
  AnnotatedDatum datum_;
  std::vector<ObjectBox> objects_;
};

// Why no box of an image can look like this; empty: it can. Parts of it may lie outside.
std::string FindBoxFault(const NormalizedBBox& box);

// The boxes in a serialized AnnotatedDatum, without looking at its image; 0 for what is damaged.
uint64_t CountBoxes(std::string_view value);

// The labels of a LabelMap file in text form. Throws kInvalidArgument, or what ReadDataFile throws.
std::set<int> ReadLabelMap(const std::string& path);

}  // namespace crema
