// Update of the running statistics of BatchNorm and BN by those of a batch.
#pragma once

#include "core/host_device.h"

namespace crema {

// stored = keep * stored + add * correction * fresh
struct StoredUpdate {
  double keep, add;
  double correction;    // of the variance; 1 for the mean
  bool first_replaces;  // while the factor is 0, new statistics replace the stored ones
  double factor_add;    // factor = keep * factor + factor_add; 0 sets it to 1

  CREMA_HOST_DEVICE double Mean(double factor, double stored, double fresh) const {
    return Replaces(factor) ? fresh : keep * stored + add * fresh;
  }
  CREMA_HOST_DEVICE double Variance(double factor, double stored, double fresh) const {
    return Replaces(factor) ? correction * fresh : keep * stored + add * correction * fresh;
  }
  CREMA_HOST_DEVICE double Factor(double factor) const {
    return factor_add == 0 ? 1 : keep * factor + factor_add;
  }

 private:
  CREMA_HOST_DEVICE bool Replaces(double factor) const { return first_replaces && factor == 0; }
};

}  // namespace crema
