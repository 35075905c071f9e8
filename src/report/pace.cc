#include "report/pace.h"

#include <cmath>
#include <utility>

#include "core/strings.h"

namespace crema {

void WaitHint::OnIteration(const IterationReport& report) {
  constexpr double kMuch = 0.2;
  if (said_) return;
  // The first iteration necessarily waits for its batch.
  if (!std::exchange(first_, false)) window_.Add(report);
  if (!window_.IsFull()) return;
  const double share = window_.Total().WaitShare();
  if (!(share > kMuch)) return;
  said_ = true;
  log_.Write(Severity::kWarning,
             StrCat("hint: ", std::lround(100 * share), " % of the last ", kIterations,
                    " iterations went into waiting for data. Give the data layer more threads and "
                    "prefetch (data_param { threads: 8 prefetch: 8 }), store images in the size "
                    "that the net takes (less to decode) or unencoded, keep them in memory (cache "
                    "in image_data_param), or put the data on a faster disk"));
}

}  // namespace crema
