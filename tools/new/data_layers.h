// Makes the layers of a job's net that read its pictures.
#pragma once

#include <vector>

#include "crema.pb.h"
#include "new/job.h"

namespace crema::tools {

// All return the layers for training and testing, in the order of the net.

// They read the lists train.txt and test.txt.
std::vector<LayerParameter> ClassifyData(const Job& job);
// They read train_lmdb, test_lmdb and labelmap.prototxt, with the augmentation of the model.
std::vector<LayerParameter> DetectData(const Job& job);
// They read train_lmdb, of which a Slice separates pictures and labels after random changes;
// test.txt and test_labels_lmdb.
std::vector<LayerParameter> SegmentData(const Job& job);

}  // namespace crema::tools
