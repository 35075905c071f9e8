// A confusion matrix as a picture.
#pragma once

#include "common/png.h"
#include "evaluate/report_folder.h"
#include "metrics/confusion_matrix.h"

namespace crema::tools {

// True classes down, predicted ones across; the darker, the larger a share of its true class. Up to
// 40 classes with names and counts, where OpenCV is there to write them.
Picture DrawConfusion(const ConfusionMatrix& matrix, const ClassNames& names);

}  // namespace crema::tools
