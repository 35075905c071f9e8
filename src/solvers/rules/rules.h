// The update rules. In all formulas
//   w  weight           g  gradient as in UpdateArgs      r  learning rate times lr_mult
//   m  momentum         d  delta                          t  iteration + 1
//   D  weight_decay times decay_mult, for the rules that decouple it; the others have it in g
// and norms are of one blob. Defaults of fields are the schema's unless said.
#pragma once

#include "solvers/update_rule.h"

namespace crema {

// SGD, in Caffe's form: the rate is inside h.
//   h = m h + r g;  w = w - h
UpdateRule SgdRule();

// Nesterov's momentum (Sutskever et al., ICML 2013), in Caffe's form.
//   h' = m h + r g;  w = w - ((1 + m) h' - m h)
UpdateRule NesterovRule();

// AdaGrad (Duchi et al., JMLR 12, 2011). momentum must be 0.
//   h = h + g^2;  w = w - r g / (sqrt(h) + d)
UpdateRule AdaGradRule();

// RMSProp (Tieleman and Hinton, 2012). p = rms_decay in [0, 1); momentum must be 0.
//   h = p h + (1 - p) g^2;  w = w - r g / (sqrt(h) + d)
UpdateRule RmsPropRule();

// AdaDelta (Zeiler, arXiv:1212.5701). The paper has r = 1.
//   h = m h + (1 - m) g^2;  u = g sqrt((k + d) / (h + d));  k = m k + (1 - m) u^2;  w = w - r u
UpdateRule AdaDeltaRule();

// Adam (Kingma and Ba, arXiv:1412.6980), b = momentum2, in Caffe's form: d is added to the root
// before its bias is corrected.
//   h = m h + (1 - m) g;  v = b v + (1 - b) g^2
//   w = w - r sqrt(1 - b^t) / (1 - m^t) h / (sqrt(v) + d)
UpdateRule AdamRule();

// AdamW (Loshchilov and Hutter, arXiv:1711.05101), h and v as for Adam. momentum unset: 0.9.
//   w = w - r D w - r (h / (1 - m^t)) / (sqrt(v / (1 - b^t)) + d)
UpdateRule AdamWRule();

// LARS (You, Gitman and Ginsburg, arXiv:1708.03888), c = trust_coefficient, D the decay in g; the
// ratio is 1 where a norm is 0. momentum unset: 0.9. L2 only.
//   h = m h + r c |w| / (|g - D w| + D |w|) g;  w = w - h
UpdateRule LarsRule();

// LAMB (You et al., arXiv:1904.00962), h and v as for Adam; the ratio is 1 where a norm is 0.
// Unset: momentum 0.9, delta 1e-6.
//   u = (h / (1 - m^t)) / (sqrt(v / (1 - b^t)) + d) + D w;  w = w - r |w| / |u| u
UpdateRule LambRule();

// Lion (Chen et al., arXiv:2302.06675), b = momentum2. Unset: momentum 0.9, momentum2 0.99.
//   w = w - r (sign(m h + (1 - m) g) + D w);  h = b h + (1 - b) g
UpdateRule LionRule();

}  // namespace crema
