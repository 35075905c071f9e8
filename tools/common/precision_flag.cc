#include "common/precision_flag.h"

#include <gflags/gflags.h>

#include "common/net_flags.h"
#include "crema.pb.h"

DEFINE_string(precision, "",
              "[Run FP32|BF16] lowest number format that layers may compute in, instead of that of "
              "the net: FP32 "
              "or BF16 if it is faster; on a GPU also TF32 and FP16; of deploy export also INT8, "
              "and auto: the fastest of FP32, BF16 and "
              "INT8 that answers nearly the same");

namespace crema::tools {

void SetPrecisionOfFlag(NetParameter* net) {
  if (!FLAGS_precision.empty()) net->set_precision(ParsePrecision("--precision", FLAGS_precision));
}

}  // namespace crema::tools
