// Replaces missing data sources, so that a net can be examined without its data.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/shape.h"
#include "crema.pb.h"
#include "graph/registry.h"

namespace crema {

struct SourceShapes {
  std::map<std::string, Shape> given;  // by blob; replaces the source even if it exists
  int64_t batch = 0;                   // 0: as written
};

// Replaces layers that read a data set, if it does not exist (and those with given shapes), by
// Input layers of the same name, tops and phase rules, also those of types that this build lacks.
// Other shapes follow from the text: batch_size and crop_size (or new_height and new_width), 3
// channels, or 1 if the text requests gray; the second top has one label for each item. `batch`
// sets axis 0 of data and Input layers. Throws kInvalidArgument, naming the blob, if the text does
// not give the size of the images.
void ReplaceSources(const SourceShapes& shapes, const Registry& registry, NetParameter* net);

// Returns true for a type that reads a data set: one of its messages has a `source` and a
// `batch_size`.
bool ReadsDataSet(const LayerType& type);

// Returns the batches that a layer of this type reads ahead, including those in progress, also
// after ReplaceSources has made it an input; 0: none.
uint32_t ReadAheadDepth(const LayerType& type, const LayerParameter& layer);

// Sets the batch size of a data layer in the message that has it; other layers do not change.
void SetBatchSize(uint32_t batch, LayerParameter* layer);

}  // namespace crema
