// Looking at a net whose data is not here.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/shape.h"
#include "crema.pb.h"

namespace crema {

struct SourceShapes {
  std::map<std::string, Shape> given;  // by blob; replaces the source whether it is there or not
  int64_t batch = 0;                   // 0: as written
};

// Turns data layers whose source does not exist (and those with given shapes) into Input layers of
// the same name, tops and phase rules. What is not given is read off the text: batch_size and
// crop_size (or new_height and new_width), 3 channels, or 1 where the text asks for gray; the
// second top holds one label an item. With `batch`, the first extent of data and Input layers
// becomes that. Throws kInvalidArgument, naming the blob, where the text does not say how large the
// images are.
void ReplaceSources(const SourceShapes& shapes, NetParameter* net);

// Batches that a data layer has ready or in work ahead of the net, also where ReplaceSources has
// made it an input; 0: it reads none ahead.
uint32_t ReadAheadDepth(const LayerParameter& layer);

// Samples a batch of a layer that reads a data set, in whichever message it has; others keep
// theirs.
void SetBatchSize(uint32_t batch, LayerParameter* layer);

}  // namespace crema
