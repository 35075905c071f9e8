#include "evaluate/worst_samples.h"

#include <algorithm>
#include <cstdio>
#include <functional>

#include "common/csv.h"

namespace crema::tools {

void WorstSamples::Add(WorstSample sample) {
  if (!Wants(sample.loss)) return;
  // After those of equal loss, so that the first ones are kept.
  const auto place =
      std::ranges::upper_bound(kept_, sample.loss, std::ranges::greater{}, &WorstSample::loss);
  kept_.insert(place, std::move(sample));
  if (kept_.size() > most_) kept_.pop_back();
}

void WorstSamples::Write(const ReportFolder& folder, const ClassNames& names) const {
  std::string csv =
      CsvLine({"rank", "sample", "name", "label", "label_name", "predicted", "predicted_name",
               "probability", "label_probability", "loss", "picture"});
  for (size_t i = 0; i < kept_.size(); ++i) {
    const WorstSample& worst = kept_[i];
    std::string picture;
    if (!worst.png.empty()) {
      char file[32];
      std::snprintf(file, sizeof(file), "worst/%03zu.png", i + 1);
      picture = file;
      folder.Write(picture, worst.png);
    }
    csv += CsvLine({std::to_string(i + 1), std::to_string(worst.sample), worst.name,
                    std::to_string(worst.label), names.Of(worst.label),
                    std::to_string(worst.predicted), names.Of(worst.predicted),
                    CsvNumber(worst.probability), CsvNumber(worst.label_probability),
                    CsvNumber(worst.loss), picture});
  }
  folder.Write("worst.csv", csv);
}

}  // namespace crema::tools
