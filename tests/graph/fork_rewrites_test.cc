// Layers of forks that are written with layers of Crema: outputs and gradients against the formulas
// of the forks' source, and what is left of the layer that was read.
#include "format/fork_rewrites.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/fork_layers.h"
#include "format/upgrade.h"
#include "support/error_text.h"
#include "support/net.h"

namespace crema {
namespace {

using test::Contains;
using test::PlanError;
using test::PlanText;
using test::ValuesOf;

using Values = std::vector<double>;

struct ForkInput {
  std::string name;
  std::vector<int64_t> dims;
  Values values = {};  // drawn if empty
  bool gradient = true;
};

int64_t CountOf(const std::vector<int64_t>& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

// Draws values of magnitude 0.1 to 1.
Values Draw(const std::string& name, int64_t count) {
  const RandomStream stream(5, HashName(name));
  Values values;
  for (int64_t i = 0; i < count; ++i) {
    const double u = 2 * stream.Uniform(static_cast<uint64_t>(i)) - 1;
    values.push_back(static_cast<float>(u < 0 ? u * 0.9 - 0.1 : u * 0.9 + 0.1));
  }
  return values;
}

std::string InputText(const ForkInput& input) {
  std::string text = StrCat("layer { name: '", input.name, "' type: 'Input' top: '", input.name,
                            "' input_param { shape {");
  for (const int64_t dim : input.dims) text += StrCat(" dim: ", dim);
  return text + " } } }\n";
}

void WriteTo(Session* session, const std::string& blob, const Values& values) {
  const TensorView view = session->MutableData(blob);
  ASSERT_EQ(view.count(), static_cast<int64_t>(values.size())) << blob;
  const std::vector<float> floats(values.begin(), values.end());
  session->Write(view, floats.data());
}

using Formula = std::function<Values(const std::vector<Values>& inputs)>;

// A net of one layer of a fork with top y, and the loss sum(w y).
class ForkNet {
 public:
  ForkNet(std::vector<ForkInput> inputs, const std::string& layer, std::vector<int64_t> y,
          Phase phase = TRAIN)
      : inputs_(std::move(inputs)) {
    inputs_.push_back({.name = "w", .dims = std::move(y), .gradient = false});
    std::string text = "force_backward: true\n";
    for (ForkInput& input : inputs_) {
      text += InputText(input);
      if (input.values.empty()) input.values = Draw(input.name, CountOf(input.dims));
    }
    text += layer +
            "\nlayer { name: 'seen' type: 'Power' bottom: 'y' top: 'seen' }"
            "\nlayer { name: 'wy' type: 'Eltwise' bottom: 'w' bottom: 'y' top: 'wy' "
            "eltwise_param { operation: PROD } }\n"
            "layer { name: 'loss' type: 'Reduction' bottom: 'wy' top: 'loss' loss_weight: 1 }";
    const auto plan = PlanText(text, phase);
    weights_ = Weights::Make(*plan, 3);
    session_ = std::make_unique<Session>(plan, weights_, ExecContext(1, 3));
  }

  void Run() {
    for (const ForkInput& input : inputs_) WriteTo(session_.get(), input.name, input.values);
    session_->Forward();
    session_->ZeroParameterGradients();
    session_->Backward();
  }

  // y has no memory of its own after the passes.
  std::vector<float> Y() const { return Data("seen"); }
  std::vector<float> Data(const std::string& blob) const { return ValuesOf(session_->Data(blob)); }
  std::vector<float> Gradient(const std::string& blob) const {
    return ValuesOf(session_->Gradient(blob));
  }
  const std::vector<ForkInput>& inputs() const { return inputs_; }
  Session& session() { return *session_; }
  Weights& weights() { return *weights_; }

  // Compares y with the formula, and the gradients of the inputs with its differences.
  void Expect(const Formula& formula) {
    Run();
    std::vector<Values> values;
    for (const ForkInput& input : inputs_) values.push_back(input.values);
    const Values w = values.back();
    values.pop_back();
    const Values expected = formula(values);
    const std::vector<float> y = Y();
    ASSERT_EQ(y.size(), expected.size());
    for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], expected[i], 1e-5) << "y at " << i;
    const auto loss = [&] {
      const Values result = formula(values);
      return std::inner_product(w.begin(), w.end(), result.begin(), 0.0);
    };
    for (size_t input = 0; input < values.size(); ++input) {
      if (!inputs_[input].gradient) continue;
      const std::vector<float> gradient = Gradient(inputs_[input].name);
      for (size_t i = 0; i < gradient.size(); ++i) {
        constexpr double kStep = 1e-5;
        const double kept = std::exchange(values[input][i], values[input][i] + kStep);
        const double above = loss();
        values[input][i] = kept - kStep;
        const double below = loss();
        values[input][i] = kept;
        EXPECT_NEAR(gradient[i], (above - below) / (2 * kStep), 1e-3)
            << "gradient of " << inputs_[input].name << " at " << i;
      }
    }
  }

 private:
  std::vector<ForkInput> inputs_;
  std::shared_ptr<Weights> weights_;
  std::unique_ptr<Session> session_;
};

// y[outer, i, inner] = f(x, outer, inner), for blobs seen as outer x size x inner.
double At(const Values& x, int64_t size, int64_t inner, int64_t o, int64_t i, int64_t k) {
  return x[static_cast<size_t>((o * size + i) * inner + k)];
}

TEST(ForkRewrites, AreListedWithTheirConditions) {
  for (const char* type :
       {"MKLBatchNorm", "MnActivation", "SpatialDropout", "CReLU", "GRN", "ChannelNorm",
        "PadChannel", "RingPad", "Padding", "BatchReduction", "PriorBoxClustered", "SyncBN",
        "BilinearInterpolation", "Mean", "LpqLoss", "Accum", "Lstm"}) {
    EXPECT_TRUE(HasForkRewrite(type)) << type;
    EXPECT_TRUE(Contains(ForkLayerMessage(type), "and works here only with")) << type;
  }
  EXPECT_FALSE(HasForkRewrite("ReLU"));
  EXPECT_FALSE(HasForkRewrite("BoxData"));
}

// Numbers of a hostile file, which would take memory or crop.
TEST(ForkRewrites, RefuseNumbersThatNoNetHas) {
  for (const std::string layer :
       {"type: 'RingPad' ring_pad_param { axis: -2147483648 }",
        "type: 'RingPad' ring_pad_param { pad: -1 }", "type: 'RingPad' ring_pad_param { axis: 4 }",
        "type: 'Padding' padding_param { pad_l: 4294967295 }", "type: 'GRN' grn_param { bias: -1 }",
        "type: 'BatchReduction' batch_reduction_param { level: 2147483647 level: 2147483647 }",
        "type: 'BatchReduction' batch_reduction_param { level: 1 reduction_param { coeff: 5 } }"}) {
    const NetFile file = ParseNet("layer { name: 'a' bottom: 'x' top: 'y' " + layer + " }", "n");
    ASSERT_EQ(file.net.layer_size(), 1) << layer;
    EXPECT_TRUE(HasForkRewrite(file.net.layer(0).type())) << layer;
  }
}

TEST(ForkRewrites, BnParamIsForSyncBnAlone) {
  const auto error = [](const std::string& type) {
    return test::ErrorOf([&] {
      ParseNet(
          "layer { name: 'a' type: '" + type + "' bottom: 'x' top: 'y' bn_param { eps: 0.1 } }",
          "n");
    });
  };
  EXPECT_TRUE(Contains(error("MKLBatchNorm"), "bn_param"));
  EXPECT_EQ(error("SyncBN"), "");
}

TEST(ForkRewrites, CReLU) {
  ForkNet({{.name = "x", .dims = {2, 3, 2, 2}}},
          "layer { name: 'a' type: 'CReLU' bottom: 'x' top: 'y' }", {2, 6, 2, 2})
      .Expect([](const std::vector<Values>& in) {
        Values y;
        for (int64_t n = 0; n < 2; ++n) {
          for (const double sign : {1.0, -1.0}) {
            for (int64_t i = 0; i < 12; ++i) {
              y.push_back(std::max(0.0, sign * At(in[0], 12, 1, n, i, 0)));
            }
          }
        }
        return y;
      });
}

TEST(ForkRewrites, CReLUOfAnotherAxisWithASlope) {
  ForkNet({{.name = "x", .dims = {2, 3}}},
          "layer { name: 'a' type: 'CReLU' bottom: 'x' top: 'y' "
          "crelu_param { concat_axis: 0 negative_slope: 0.25 } }",
          {4, 3})
      .Expect([](const std::vector<Values>& in) {
        Values y;
        for (const double sign : {1.0, -1.0}) {
          for (const double x : in[0]) y.push_back(sign * x * (sign * x > 0 ? 1 : 0.25));
        }
        return y;
      });
}

TEST(ForkRewrites, Grn) {
  ForkNet({{.name = "x", .dims = {2, 3, 2, 2}}},
          "layer { name: 'a' type: 'GRN' bottom: 'x' top: 'y' grn_param { bias: 0.5 } }",
          {2, 3, 2, 2})
      .Expect([](const std::vector<Values>& in) {
        Values y = in[0];
        for (int64_t n = 0; n < 2; ++n) {
          for (int64_t k = 0; k < 4; ++k) {
            double sum = 0.5;
            for (int64_t c = 0; c < 3; ++c) sum += std::pow(At(in[0], 3, 4, n, c, k), 2);
            for (int64_t c = 0; c < 3; ++c) {
              y[static_cast<size_t>((n * 3 + c) * 4 + k)] /= std::sqrt(sum);
            }
          }
        }
        return y;
      });
}

TEST(ForkRewrites, ChannelNorm) {
  ForkNet({{.name = "x", .dims = {2, 3, 2, 2}}},
          "layer { name: 'a' type: 'ChannelNorm' bottom: 'x' top: 'y' }", {2, 1, 2, 2})
      .Expect([](const std::vector<Values>& in) {
        Values y;
        for (int64_t n = 0; n < 2; ++n) {
          for (int64_t k = 0; k < 4; ++k) {
            double sum = 0;
            for (int64_t c = 0; c < 3; ++c) sum += std::pow(At(in[0], 3, 4, n, c, k), 2);
            y.push_back(std::sqrt(sum));
          }
        }
        return y;
      });
}

// y of shape N x C x H x W, whose values `of` names by their place in x; -1 is 0.
Formula Moves(std::vector<int64_t> dims,
              std::function<int64_t(int64_t n, int64_t c, int64_t h, int64_t w)> of) {
  return [dims = std::move(dims), of = std::move(of)](const std::vector<Values>& in) {
    Values y;
    for (int64_t n = 0; n < dims[0]; ++n) {
      for (int64_t c = 0; c < dims[1]; ++c) {
        for (int64_t h = 0; h < dims[2]; ++h) {
          for (int64_t w = 0; w < dims[3]; ++w) {
            const int64_t from = of(n, c, h, w);
            y.push_back(from < 0 ? 0 : in[0][static_cast<size_t>(from)]);
          }
        }
      }
    }
    return y;
  };
}

TEST(ForkRewrites, PadChannel) {
  ForkNet({{.name = "x", .dims = {2, 3, 2, 2}}},
          "layer { name: 'a' type: 'PadChannel' bottom: 'x' top: 'y' "
          "pad_channel_param { num_channels_to_pad: 2 } }",
          {2, 5, 2, 2})
      .Expect(Moves({2, 5, 2, 2}, [](int64_t n, int64_t c, int64_t h, int64_t w) {
        return c < 3 ? ((n * 3 + c) * 2 + h) * 2 + w : -1;
      }));
}

TEST(ForkRewrites, RingPad) {
  const auto columns = Moves({2, 2, 2, 7}, [](int64_t n, int64_t c, int64_t h, int64_t w) {
    return ((n * 2 + c) * 2 + h) * 3 + (w + 1) % 3;
  });
  for (const char* axis : {"3", "-1"}) {
    ForkNet({{.name = "x", .dims = {2, 2, 2, 3}}},
            StrCat("layer { name: 'a' type: 'RingPad' bottom: 'x' top: 'y' ring_pad_param { axis: ",
                   axis, " pad: 2 } }"),
            {2, 2, 2, 7})
        .Expect(columns);
  }
  ForkNet({{.name = "x", .dims = {2, 3, 2, 2}}},
          "layer { name: 'a' type: 'RingPad' bottom: 'x' top: 'y' }", {2, 5, 2, 2})
      .Expect(Moves({2, 5, 2, 2}, [](int64_t n, int64_t c, int64_t h, int64_t w) {
        return ((n * 3 + (c + 2) % 3) * 2 + h) * 2 + w;
      }));
}

TEST(ForkRewrites, Padding) {
  const auto padded = [](const std::string& param, int64_t top, int64_t left, int64_t rows,
                         int64_t columns) {
    ForkNet({{.name = "x", .dims = {1, 2, 2, 3}}},
            StrCat("layer { name: 'a' type: 'Padding' bottom: 'x' top: 'y' padding_param { ", param,
                   " } }"),
            {1, 2, rows, columns})
        .Expect(Moves({1, 2, rows, columns}, [=](int64_t, int64_t c, int64_t h, int64_t w) {
          const bool inside = h >= top && h < top + 2 && w >= left && w < left + 3;
          return inside ? (c * 2 + h - top) * 3 + w - left : -1;
        }));
  };
  padded("pad_l: 1 pad_r: 2 pad_t: 3", 3, 1, 5, 6);
  padded("pad: 1 pad_h: 5", 1, 1, 4, 5);
  padded("pad_h: 2 pad_w_left: 1", 2, 1, 6, 4);
  padded("pad_h_bottom: 1 pad_w: 1", 0, 1, 3, 5);
}

TEST(ForkRewrites, PaddingWithAValue) {
  ForkNet net({{.name = "x", .dims = {1, 1, 1, 1}}},
              "layer { name: 'a' type: 'Padding' bottom: 'x' top: 'y' "
              "padding_param { pad_method: CONSTANT pad_b: 1 pad_value: -7 } }",
              {1, 1, 2, 1});
  net.Run();
  EXPECT_EQ(net.Y()[1], -7);
}

TEST(ForkRewrites, BatchReductionOfAWholeAxis) {
  ForkNet({{.name = "x", .dims = {4, 3}}},
          "layer { name: 'a' type: 'BatchReduction' bottom: 'x' top: 'y' "
          "batch_reduction_param { reduction_param { operation: MEAN } } }",
          {3})
      .Expect([](const std::vector<Values>& in) {
        Values y(3);
        for (size_t i = 0; i < 12; ++i) y[i % 3] += in[0][i] / 4;
        return y;
      });
}

// Levels 1 and 2: one group of 1 element and one of 4.
TEST(ForkRewrites, BatchReductionOfLevels) {
  for (const char* axis : {"1", "-2"}) {
    for (const bool mean : {true, false}) {
      ForkNet({{.name = "x", .dims = {2, 5, 3}}},
              StrCat("layer { name: 'a' type: 'BatchReduction' bottom: 'x' top: 'y' "
                     "batch_reduction_param { level: 1 level: 2 reduction_param { axis: ",
                     axis, " operation: ", mean ? "MEAN" : "SUM", " } } }"),
              {2, 2, 3})
          .Expect([mean](const std::vector<Values>& in) {
            Values y;
            for (int64_t n = 0; n < 2; ++n) {
              for (int64_t k = 0; k < 3; ++k) y.push_back(At(in[0], 5, 3, n, 0, k));
              for (int64_t k = 0; k < 3; ++k) {
                double sum = 0;
                for (int64_t i = 1; i < 5; ++i) sum += At(in[0], 5, 3, n, i, k);
                y.push_back(mean ? sum / 4 : sum);
              }
            }
            return y;
          });
    }
  }
}

TEST(ForkRewrites, BatchReductionRefusesAnAxisOfAnotherSize) {
  for (const char* levels : {"level: 2", "level: 1 level: 2"}) {
    const std::string error =
        PlanError(StrCat(InputText({.name = "x", .dims = {6, 3}}),
                         "layer { name: 'a' type: 'BatchReduction' bottom: 'x' top: 'y' "
                         "batch_reduction_param { ",
                         levels, " } }"));
    EXPECT_TRUE(Contains(error, "net.prototxt:2:1: layer \"a/whole\"")) << error;
  }
}

TEST(ForkRewrites, BilinearInterpolation) {
  const auto formula = [](const std::vector<Values>& in) {
    Values y;
    for (int64_t p = 0; p < 2; ++p) {
      for (int64_t h = 0; h < 4; ++h) {
        for (int64_t w = 0; w < 6; ++w) {
          const double row = h * 1.0 / 3, column = w * 2.0 / 5;
          const auto top = static_cast<int64_t>(row), left = static_cast<int64_t>(column);
          double sum = 0;
          for (const int64_t i : {top, top + 1}) {
            for (const int64_t j : {left, left + 1}) {
              const double factor = (1 - std::abs(row - static_cast<double>(i))) *
                                    (1 - std::abs(column - static_cast<double>(j)));
              sum += factor * At(in[0], 2, 3, p, std::min<int64_t>(i, 1), std::min<int64_t>(j, 2));
            }
          }
          y.push_back(sum);
        }
      }
    }
    return y;
  };
  ForkNet({{.name = "x", .dims = {1, 2, 2, 3}}},
          "layer { name: 'a' type: 'BilinearInterpolation' bottom: 'x' top: 'y' "
          "bilinear_interpolation_param { interpolation_factor: 2 } }",
          {1, 2, 4, 6})
      .Expect(formula);
  ForkNet({{.name = "x", .dims = {1, 2, 2, 3}},
           {.name = "size", .dims = {1, 1, 4, 6}, .gradient = false}},
          "layer { name: 'a' type: 'BilinearInterpolation' bottom: 'x' bottom: 'size' top: 'y' }",
          {1, 2, 4, 6})
      .Expect(formula);
}

// The second bottom is enlarged to the size of the third; the first has it.
TEST(ForkRewrites, Accum) {
  ForkNet({{.name = "a", .dims = {2, 1, 2, 3}},
           {.name = "b", .dims = {2, 2, 2, 2}},
           {.name = "size", .dims = {2, 1, 2, 3}, .gradient = false}},
          "layer { name: 'accum' type: 'Accum' bottom: 'a' bottom: 'b' bottom: 'size' top: 'y' "
          "accum_param { have_reference: true } }",
          {2, 3, 2, 3})
      .Expect([](const std::vector<Values>& in) {
        Values y;
        for (int64_t n = 0; n < 2; ++n) {
          for (int64_t i = 0; i < 6; ++i) y.push_back(At(in[0], 6, 1, n, i, 0));
          for (int64_t row = 0; row < 4; ++row) {  // of both channels
            const double left = At(in[1], 4, 2, n, row, 0), right = At(in[1], 4, 2, n, row, 1);
            for (const double at : {0.0, 0.5, 1.0}) y.push_back(left * (1 - at) + right * at);
          }
        }
        return y;
      });
}

TEST(ForkRewrites, MeanTakesItsValuesInTurn) {
  ForkNet({{.name = "x", .dims = {2, 6, 2, 1}}},
          "layer { name: 'a' type: 'Mean' bottom: 'x' top: 'y' mean_param { operation: SUBTRACT "
          "value: 1 value: 2 value: 3 mean_scale: 0.5 input_scale: 3 output_scale: 2 } }",
          {2, 6, 2, 1})
      .Expect([](const std::vector<Values>& in) {
        Values y;
        for (size_t i = 0; i < 24; ++i) {
          const double mean = static_cast<double>(i / 2 % 3 + 1);
          y.push_back(2 * (3 * in[0][i] - 0.5 * mean));
        }
        return y;
      });
}

TEST(ForkRewrites, MeanOfSeveralBottoms) {
  for (const bool one : {true, false}) {
    ForkNet net({{.name = "a", .dims = {1, 2}, .values = {1, 2}},
                 {.name = "b", .dims = {1, 2}, .values = {3, 4}}},
                StrCat("layer { name: 'm' type: 'Mean' bottom: 'a' bottom: 'b' top: 'c' top: 'y' "
                       "mean_param { operation: ADD value: 10 ",
                       one ? "" : "value: 20 ", "} }"),
                {1, 2});
    net.Run();
    const float second = one ? 10 : 20;
    EXPECT_EQ(net.Data("c"), (std::vector<float>{11, 2 + second}));
    EXPECT_EQ(net.Y(), (std::vector<float>{13, 4 + second}));
  }
}

// Two items of two channels and three places.
double LpqOf(const Values& x, double scale) {
  double loss = 0;
  for (int64_t n = 0; n < 2; ++n) {
    for (int64_t k = 0; k < 3; ++k) {
      double sum = 0.01;
      for (int64_t c = 0; c < 2; ++c) {
        const double v = At(x, 2, 3, n, c, k);
        sum += scale * std::pow((std::isnan(v) ? 0 : std::abs(v)) + 0.1, 1.5);
      }
      loss += std::pow(sum, 0.4) / 2;
    }
  }
  return loss;
}

std::string LpqText(const std::string& bottoms, const std::string& more) {
  return StrCat("layer { name: 'a' type: 'LpqLoss' ", bottoms,
                " top: 'loss of a' lpq_loss_param { p: 1.5 q: 0.4 p_epsilon: 0.1 ", more, " } }");
}

// Without a weight of its own, and as a blob of one axis.
ForkNet LpqNet(std::vector<ForkInput> inputs, const std::string& bottoms, const std::string& more) {
  return ForkNet(std::move(inputs),
                 LpqText(bottoms + " loss_weight: 0", more) +
                     "layer { name: 'r' type: 'Reshape' bottom: 'loss of a' top: 'y' "
                     "reshape_param { shape { dim: 1 } } }",
                 {1});
}

TEST(ForkRewrites, LpqLoss) {
  LpqNet({{.name = "x", .dims = {2, 2, 1, 3}}}, "bottom: 'x'", "")
      .Expect([](const std::vector<Values>& in) { return Values{LpqOf(in[0], 1)}; });
  LpqNet({{.name = "a", .dims = {2, 2, 1, 3}}, {.name = "b", .dims = {2, 2, 1, 3}}},
         "bottom: 'a' bottom: 'b'", "l2_prescale_by_channels: true")
      .Expect([](const std::vector<Values>& in) {
        Values difference = in[0];
        for (size_t i = 0; i < difference.size(); ++i) difference[i] -= in[1][i];
        return Values{LpqOf(difference, 0.5)};
      });
}

TEST(ForkRewrites, LpqLossTakesMissingValuesAsZero) {
  ForkNet net = LpqNet({{.name = "x", .dims = {2, 2, 1, 3}}}, "bottom: 'x'", "");
  Values x = net.inputs()[0].values;
  x[4] = std::numeric_limits<double>::quiet_NaN();
  WriteTo(&net.session(), "x", x);
  WriteTo(&net.session(), "w", {1});
  net.session().Forward();
  net.session().Backward();
  EXPECT_NEAR(net.Y()[0], LpqOf(x, 1), 1e-5);
  EXPECT_EQ(net.Gradient("x")[4], 0);
  EXPECT_NE(net.Gradient("x")[3], 0);
}

TEST(ForkRewrites, LpqLossIsALoss) {
  const std::string net = InputText({.name = "x", .dims = {2, 2, 1, 3}});
  EXPECT_EQ(PlanText(net + LpqText("bottom: 'x'", ""))->layers.back().layer->param().loss_weight(0),
            1);
}

TEST(ForkRewrites, PriorBoxClusteredHasBoxesOfTheGivenSizesOnly) {
  ForkNet net({{.name = "map", .dims = {1, 2, 2, 3}, .gradient = false},
               {.name = "image", .dims = {1, 3, 20, 60}, .gradient = false}},
              "layer { name: 'a' type: 'PriorBoxClustered' bottom: 'map' bottom: 'image' top: 'y' "
              "prior_box_param { width: 10.5 width: 30 height: 8 height: 5.5 variance: 0.2 "
              "clip: true } }",
              {1, 2, 48});
  net.Expect([](const std::vector<Values>&) {
    Values y;
    const auto clip = [](double v) { return std::clamp(v, 0.0, 1.0); };
    for (int h = 0; h < 2; ++h) {
      for (int w = 0; w < 3; ++w) {
        for (const auto& [width, height] : {std::pair(10.5, 8.0), std::pair(30.0, 5.5)}) {
          const double x = (w + 0.5) * 20, row = (h + 0.5) * 10;
          for (const double sign : {-0.5, 0.5}) {
            y.push_back(clip((x + sign * width) / 60));
            y.push_back(clip((row + sign * height) / 20));
          }
        }
      }
    }
    y.resize(96, 0.2);
    return y;
  });
}

TEST(ForkRewrites, SpatialDropoutDropsWholeChannels) {
  const std::string layer =
      "layer { name: 'a' type: 'SpatialDropout' bottom: 'x' top: 'y' "
      "dropout_param { dropout_ratio: 0.25 } }";
  ForkNet net({{.name = "x", .dims = {8, 8, 3, 2}}}, layer, {8, 8, 3, 2});
  net.Run();
  const Values& x = net.inputs()[0].values;
  const Values& w = net.inputs()[1].values;
  int dropped = 0;
  for (size_t plane = 0; plane < 64; ++plane) {
    const bool is_dropped = net.Y()[plane * 6] == 0;
    dropped += is_dropped ? 1 : 0;
    for (size_t i = plane * 6; i < plane * 6 + 6; ++i) {
      EXPECT_NEAR(net.Y()[i], is_dropped ? 0 : x[i] / 0.75, 1e-5);
      EXPECT_NEAR(net.Gradient("x")[i], is_dropped ? 0 : w[i] / 0.75, 1e-5);
    }
  }
  EXPECT_GT(dropped, 4);
  EXPECT_LT(dropped, 32);
  ForkNet({{.name = "x", .dims = {2, 3, 2, 2}}}, layer, {2, 3, 2, 2}, TEST)
      .Expect([](const std::vector<Values>& in) { return in[0]; });
}

TEST(ForkRewrites, SpatialDropoutMayRunInPlace) {
  ForkNet net({{.name = "x", .dims = {4, 4, 2, 2}}},
              "layer { name: 'p' type: 'Power' bottom: 'x' top: 'y' }"
              "layer { name: 'a' type: 'SpatialDropout' bottom: 'y' top: 'y' }",
              {4, 4, 2, 2});
  net.Run();
  const Values& x = net.inputs()[0].values;
  for (size_t i = 0; i < x.size(); ++i) {
    const float y = net.Y()[i];
    EXPECT_TRUE(y == 0 || std::abs(y - 2 * x[i]) < 1e-5) << i;
  }
}

TEST(ForkRewrites, MnActivationCopies) {
  ForkNet({{.name = "x", .dims = {2, 3}}},
          "layer { name: 'a' type: 'MnActivation' bottom: 'x' top: 'y' "
          "mn_activation_param { num_nodes_in: 2 } }",
          {2, 3})
      .Expect([](const std::vector<Values>& in) { return in[0]; });
}

// One step of one stream of caffe-lstm: gates in the order i, f, o, g.
void LstmStep(const Values& x, int64_t at, const std::vector<Values>& blobs, bool goes_on,
              Values* h, Values* c) {
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  Values gates(8);
  for (size_t g = 0; g < 8; ++g) {
    gates[g] = blobs[2][g];
    for (size_t i = 0; i < 3; ++i) {
      gates[g] += blobs[0][g * 3 + i] * x[static_cast<size_t>(at) * 3 + i];
    }
    for (size_t d = 0; d < 2 && goes_on; ++d) gates[g] += blobs[1][g * 2 + d] * (*h)[d];
  }
  for (size_t d = 0; d < 2; ++d) {
    const double forget = goes_on ? sigmoid(gates[2 + d]) : 0;
    (*c)[d] = forget * (*c)[d] + sigmoid(gates[d]) * std::tanh(gates[6 + d]);
    (*h)[d] = sigmoid(gates[4 + d]) * std::tanh((*c)[d]);
  }
}

// Three steps of two streams with three features; H = 2. Weights in the order of the fork.
Values LstmOf(const Values& x, const Values& clip, const std::vector<Values>& blobs) {
  Values y(12);
  for (int64_t n = 0; n < 2; ++n) {
    Values h(2), c(2);
    for (int64_t t = 0; t < 3; ++t) {
      const int64_t at = t * 2 + n;
      LstmStep(x, at, blobs, clip[static_cast<size_t>(at)] != 0, &h, &c);
      for (size_t d = 0; d < 2; ++d) y[static_cast<size_t>(at) * 2 + d] = h[d];
    }
  }
  return y;
}

constexpr const char* kLstmParam =
    "lstm_param { num_output: 2 batch_size: 2 weight_filler { type: 'uniform' min: -1 max: 1 } "
    "bias_filler { type: 'uniform' min: -1 max: 1 } } }";

// Returns the weights of the LSTM layer, in the order of caffe-lstm.
std::vector<Values> LstmBlobs(const Weights& weights) {
  std::vector<Values> blobs;
  for (const size_t slot : {0, 2, 1}) {
    const std::vector<float> values = ValuesOf(weights.blob(slot));
    blobs.emplace_back(values.begin(), values.end());
  }
  return blobs;
}

TEST(ForkRewrites, Lstm) {
  const Values clip = {0, 0, 1, 0, 1, 1};
  ForkNet clipped(
      {{.name = "x", .dims = {6, 3}},
       {.name = "clip", .dims = {6}, .values = clip, .gradient = false}},
      StrCat("layer { name: 'a' type: 'Lstm' bottom: 'x' bottom: 'clip' top: 'y' ", kLstmParam),
      {6, 2});
  const std::vector<Values> blobs = LstmBlobs(clipped.weights());
  clipped.Expect([&](const std::vector<Values>& in) { return LstmOf(in[0], clip, blobs); });
  ForkNet plain({{.name = "x", .dims = {6, 3}}},
                StrCat("layer { name: 'a' type: 'Lstm' bottom: 'x' top: 'y' ", kLstmParam), {6, 2});
  const std::vector<Values> others = LstmBlobs(plain.weights());
  plain.Expect([&](const std::vector<Values>& in) {
    return LstmOf(in[0], {0, 0, 1, 1, 1, 1}, others);
  });
}

// A weights file of caffe-lstm has the weights of the state before the bias.
TEST(ForkRewrites, LstmTakesTheWeightsOfAFile) {
  NetParameter file;
  LayerParameter* layer = file.add_layer();
  layer->set_name("a");
  layer->set_type("Lstm");
  layer->add_bottom("x");
  layer->add_top("y");
  std::vector<Values> blobs;
  for (const std::vector<int64_t>& dims : {std::vector<int64_t>{8, 3}, {8, 2}, {8}}) {
    BlobProto* blob = layer->add_blobs();
    for (const int64_t dim : dims) blob->mutable_shape()->add_dim(dim);
    blobs.push_back(Draw(StrCat("blob", blobs.size()), CountOf(dims)));
    for (const double value : blobs.back()) blob->add_data(static_cast<float>(value));
  }
  SourceMap source;
  std::vector<Problem> warnings;
  UpgradeNet(&file, &source, &warnings);

  ForkNet net({{.name = "x", .dims = {6, 3}}},
              StrCat("layer { name: 'a' type: 'Lstm' bottom: 'x' top: 'y' ", kLstmParam), {6, 2});
  net.weights().Load(net.session().plan(), file, "file", MissingLayers::kError);
  net.Expect([&](const std::vector<Values>& in) {
    return LstmOf(in[0], {0, 0, 1, 1, 1, 1}, blobs);
  });
}

// y = scale * (x - mean) / sqrt(variance + eps) + shift, with one channel.
TEST(ForkRewrites, SyncBnTestsWithTheWeightsOfAFile) {
  NetParameter file = ParseNet("layer { name: 'a' type: 'SyncBN' bottom: 'x' top: 'y' }", "n").net;
  for (const float value : {2.0F, 0.5F, 0.25F, 4.0F}) {
    BlobProto* blob = file.mutable_layer(0)->add_blobs();
    for (const int64_t dim : {1, 1}) blob->mutable_shape()->add_dim(dim);
    blob->add_data(value);
  }
  ForkNet net({{.name = "x", .dims = {3, 1, 2, 1}}},
              "layer { name: 'a' type: 'SyncBN' bottom: 'x' top: 'y' "
              "bn_param { slope_filler { value: 1 } bias_filler { value: 0 } eps: 0.5 } }",
              {3, 1, 2, 1}, TEST);
  net.weights().Load(net.session().plan(), file, "file", MissingLayers::kError);
  net.Expect([](const std::vector<Values>& in) {
    Values y;
    for (const double x : in[0]) y.push_back(2 * (x - 0.25) / std::sqrt(4.5) + 0.5);
    return y;
  });
}

TEST(ForkRewrites, SyncBnTellsItsDifferenceOnce) {
  const std::string layers =
      "layer { name: 'a' type: 'SyncBN' bottom: 'x' top: 'b' }\n"
      "layer { name: 'c' type: 'SyncBN' bottom: 'b' top: 'd' }";
  const NetFile file = ParseNet(InputText({.name = "x", .dims = {2, 3}}) + layers, "n");
  ASSERT_EQ(file.warnings.size(), 1U);
  EXPECT_TRUE(Contains(ToString(file.warnings[0]), "n:2:19: layer \"a\": SyncBN runs as BN"))
      << ToString(file.warnings[0]);
}

TEST(ForkRewrites, MklBatchNormHasScaleAndShift) {
  const auto plan = PlanText(StrCat(InputText({.name = "x", .dims = {2, 3, 2, 2}}),
                                    "layer { name: 'a' type: 'MKLBatchNorm' bottom: 'x' top: 'y' "
                                    "batch_norm_param { eps: 0.01 } }"));
  const LayerParameter& param = plan->layers.back().layer->param();
  EXPECT_EQ(param.type(), "BatchNorm");
  EXPECT_FLOAT_EQ(param.batch_norm_param().eps(), 0.01F);
  EXPECT_EQ(plan->parameters.size(), 5U);
}

NetParameter Rewritten(const std::string& text) { return ParseNet(text, "n").net; }

TEST(ForkRewrites, PartsHaveTheRulesOfTheLayerAndTheLastItsFields) {
  const NetParameter net = Rewritten(
      "layer { name: 'a' type: 'CReLU' bottom: 'x' top: 'y' include { phase: TEST stage: 's' } "
      "propagate_down: false loss_weight: 2 param { name: 'p' } blobs { data: 1 } "
      "crelu_param { concat_axis: 2 } }");
  EXPECT_EQ(
      PrintText(net),
      PrintText(Rewritten(
          "layer { name: 'a/negative' type: 'Power' bottom: 'x' top: 'a/negative' "
          "propagate_down: false include { phase: TEST stage: 's' } power_param { scale: -1 } }"
          "layer { name: 'a/both' type: 'Concat' bottom: 'x' bottom: 'a/negative' top: 'a/both' "
          "propagate_down: false propagate_down: true include { phase: TEST stage: 's' } "
          "concat_param { axis: 2 } }"
          "layer { name: 'a' type: 'ReLU' bottom: 'a/both' top: 'y' include { phase: TEST stage: "
          "'s' } "
          "propagate_down: true loss_weight: 2 param { name: 'p' } blobs { data: 1 } "
          "relu_param { negative_slope: 0 } }")));
}

TEST(ForkRewrites, UpgradingAgainChangesNothing) {
  NetFile file = ParseNet("layer { name: 'a' type: 'GRN' bottom: 'x' top: 'y' }", "n");
  const std::string once = PrintText(file.net);
  UpgradeNet(&file.net, &file.source, &file.warnings);
  EXPECT_EQ(PrintText(file.net), once);
}

TEST(ForkRewrites, LaterLayersKeepTheirPositions) {
  const NetFile file = ParseNet(
      "layer { name: 'x' type: 'Input' }\n"
      "layer { name: 'a' type: 'GRN' bottom: 'x' top: 'y' }\n"
      "layer { name: 'b' type: 'CReLU' bottom: 'y' top: 'z' }\n"
      "layer { name: 'c' type: 'ReLU' bottom: 'z'\n top: 'z' }",
      "n");
  ASSERT_EQ(file.net.layer_size(), 8);
  const int lines[] = {1, 2, 2, 2, 3, 3, 3, 4};
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(file.source.Locate(StrCat("layer[", i, "]")).line, lines[i]) << i;
  }
  EXPECT_EQ(file.source.Locate("layer[3].bottom[0]").column, 31);
  EXPECT_EQ(file.source.Locate("layer[7].top[0]").line, 5);
}

TEST(ForkRewrites, WhatThePartsCannotExpressIsAnError) {
  const auto error = [](const std::string& layer) {
    return PlanError(StrCat(InputText({.name = "x", .dims = {2, 4, 2, 2}}), "layer { name: 'a' ",
                            layer, " bottom: 'x' top: 'y' }"));
  };
  for (const char* layer :
       {"type: 'GRN' grn_param { dummy_backward: true }", "type: 'PadChannel'",
        "type: 'SpatialDropout' spatial_dropout_param { dropout_ratio: 0.1 }",
        "type: 'Padding' padding_param { pad_to_power_of_2: true }",
        "type: 'BatchReduction' batch_reduction_param { pos: true }",
        "type: 'BatchReduction' batch_reduction_param { reduction_param { operation: ASUM } }",
        "type: 'SyncBN' bn_param { frozen: true }", "type: 'BilinearInterpolation'",
        "type: 'Mean' mean_param { operation: ADD file: 'm' }", "type: 'LpqLoss'",
        "type: 'LpqLoss' lpq_loss_param { p: 1 q: 1 normalize_by_num_entries: true }",
        "type: 'Accum'", "type: 'Lstm' lstm_param { num_output: 2 }",
        "type: 'Lstm' lstm_param { num_output: 2 batch_size: 1 clipping_threshold: 1 }",
        "type: 'PriorBoxClustered' prior_box_param { min_size: 4 }", "type: 'CReLU' bottom: 'x'"}) {
    EXPECT_TRUE(Contains(error(layer), "works here only with")) << layer << ": " << error(layer);
  }
}

TEST(ForkRewrites, AMisspeltFieldIsNamed) {
  const std::string error = PlanError(
      "layer { name: 'a' type: 'CReLU' bottom: 'x' top: 'y' creluparam { concat_axis: 1 } }");
  EXPECT_TRUE(Contains(error, "unknown field 'creluparam' (did you mean 'crelu_param'?)")) << error;
}

}  // namespace
}  // namespace crema
