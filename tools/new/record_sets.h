// Writes the data sets of a job for which the layers cannot read files directly.
#pragma once

#include "new/job.h"

namespace crema::tools {

// Writes the pictures (files as they are) and their boxes to the LMDB `name` of the job, for
// AnnotatedData. Throws kDataLoss for a box outside of its picture, kIoFailure, and what
// MakeImageRecord throws.
void WriteBoxRecords(const Job& job, const PictureSet& set, const std::string& name);

// Writes labelmap.prototxt: the background and the classes.
void WriteLabelMap(const Job& job);

// Writes pictures and label maps in the size of the net as one Datum each, so that crops and
// mirrors move both: blue, green, red and the label. Labels take the nearest pixel.
void WriteMaskedRecords(const Job& job, const PictureSet& set, const std::string& name);

// Writes the label maps alone.
void WriteLabelRecords(const Job& job, const PictureSet& set, const std::string& name);

}  // namespace crema::tools
