// Draws a confusion matrix.
#pragma once

#include "data/image/png.h"
#include "evaluate/report_folder.h"
#include "metrics/confusion_matrix.h"

namespace crema::tools {

// True classes are rows, predicted ones columns; darker means a larger share of the true class. Up
// to 40 classes are drawn with names and counts if OpenCV is available.
Picture DrawConfusion(const ConfusionMatrix& matrix, const ClassNames& names);

}  // namespace crema::tools
