// Einsum: y = the sum over all labels that the output lacks of the product of the inputs, whose
// axes the equation labels: "bij,bjk->bik" is a product of matrices, "ii->i" a diagonal,
// "...i->..." a sum along the last axis. An axis of size 1 is repeated. This is Einsum of ONNX, and
// NumPy's. The gradient of an input is such a sum too, with dy in place of the input.
#include "layers/arithmetic/einsum.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <string>
#include <string_view>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 12;  // minimum products per thread
constexpr Label kEllipsis = 256;     // its last axis; those before follow
constexpr std::string_view kDots = "...";

[[noreturn]] void FailEquation(const Layer& layer, const std::string& problem) {
  FailField(layer, "einsum_param.equation",
            StrCat("equation '", layer.param().einsum_param().equation(), "' ", problem));
}

std::string WithoutSpaces(std::string_view text) {
  std::string kept;
  for (const char c : text) {
    if (c != ' ') kept += c;
  }
  return kept;
}

int CountLetters(const Layer& layer, std::string_view term) {
  const size_t dots = term.find(kDots);
  int letters = 0;
  for (size_t i = 0; i < term.size(); ++i) {
    if (dots != std::string_view::npos && i >= dots && i < dots + kDots.size()) continue;
    if (std::isalpha(static_cast<unsigned char>(term[i])) == 0) {
      FailEquation(layer, StrCat("has '", term[i], "' in the term '", term,
                                 "'; a term has letters and at most one '...'"));
    }
    ++letters;
  }
  return letters;
}

// Returns the labels of a term; an ellipsis stands for `more` axes.
std::vector<Label> LabelsOf(std::string_view term, int more) {
  std::vector<Label> labels;
  for (size_t i = 0; i < term.size(); ++i) {
    if (term.substr(i, kDots.size()) == kDots) {
      for (int a = more - 1; a >= 0; --a) labels.push_back(kEllipsis + a);
      i += kDots.size() - 1;
    } else {
      labels.push_back(static_cast<unsigned char>(term[i]));
    }
  }
  return labels;
}

bool Has(const std::vector<Label>& labels, Label label) {
  return std::ranges::find(labels, label) != labels.end();
}

// Returns the output without "->": the axes of ellipses, then the letters that occur once.
std::vector<Label> ImpliedOutput(const EinsumTerms& terms, int ellipsis) {
  std::vector<Label> output = LabelsOf(kDots, ellipsis);
  for (Label letter = 0; letter < kEllipsis; ++letter) {
    int64_t times = 0;
    for (const std::vector<Label>& input : terms.inputs) times += std::ranges::count(input, letter);
    if (times == 1) output.push_back(letter);
  }
  return output;
}

// Sets the labels and their sizes.
void SetSizes(const Layer& layer, const std::vector<Shape>& inputs, EinsumTerms* terms) {
  terms->labels = terms->output;
  for (const std::vector<Label>& input : terms->inputs) {
    for (const Label label : input) {
      if (!Has(terms->labels, label)) terms->labels.push_back(label);
    }
  }
  if (terms->labels.size() > size_t{Contraction::kMostLabels}) {
    FailEquation(layer, StrCat("has ", terms->labels.size(), " labels, at most ",
                               Contraction::kMostLabels, " are possible"));
  }
  for (const Label label : terms->labels) {
    int64_t size = 1;
    for (size_t i = 0; i < inputs.size(); ++i) {
      for (int a = 0; a < inputs[i].axes(); ++a) {
        const int64_t given = inputs[i][a];
        if (terms->inputs[i][static_cast<size_t>(a)] != label || given == size || given == 1) {
          continue;
        }
        if (size != 1) {
          const std::string name =
              label < kEllipsis ? std::string(1, static_cast<char>(label)) : std::string(kDots);
          FailInputs(layer, StrCat("axes with the label ", name, " have the sizes ", size, " and ",
                                   given, "; they must be equal or 1"));
        }
        size = given;
      }
    }
    terms->sizes.push_back(size);
  }
}

// Returns the stride of a label: the sum over its axes.
int64_t StrideOf(const std::vector<Label>& labels, const Shape& shape, Label label) {
  int64_t stride = 0;
  for (int a = 0; a < shape.axes(); ++a) {
    if (labels[static_cast<size_t>(a)] == label && shape[a] != 1) stride += shape.count(a + 1);
  }
  return stride;
}

Shape OutputShape(const EinsumTerms& terms) {
  return Shape(std::span<const int64_t>(terms.sizes.data(), terms.output.size()));
}

// Adds a label; outer ones must come first.
void AddLabel(Contraction* c, int64_t size, int64_t to, const std::vector<int64_t>& from) {
  c->size[c->labels] = size;
  c->to[c->labels] = to;
  std::ranges::copy(from, c->from[c->labels]);
  ++c->labels;
}

class Einsum final : public Layer {
 public:
  explicit Einsum(const LayerParameter& param) : Layer(param) {
    if (!param.einsum_param().has_equation()) {
      FailField(*this, "einsum_param.equation", "the equation is missing");
    }
    if (param.bottom_size() > Contraction::kMostOperands) {
      FailEquation(*this, StrCat("has ", param.bottom_size(), " bottoms, at most ",
                                 Contraction::kMostOperands, " are possible; use several layers"));
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    std::vector<Shape> shapes;
    for (const BlobSpec& input : context.inputs) shapes.push_back(input.shape);
    const EinsumTerms terms = EinsumTermsOf(*this, shapes);
    const Contraction c = ForwardContraction(terms, shapes);
    LayerInfo info;
    info.outputs = {{OutputShape(terms), context.inputs[0].dtype}};
    SetReach(terms, shapes, &info);
    info.moves_only = shapes.size() == 1 && c.outer == c.labels;
    info.backward_reads_input.assign(shapes.size(), shapes.size() > 1);
    double products = 1;
    for (int l = 0; l < c.labels; ++l) products *= static_cast<double>(c.size[l]);
    constexpr double kMost = 1e15;  // a week of work
    if (products > kMost) {
      FailInputs(*this, StrCat("the equation asks for ", products, " products; the most is ", kMost,
                               ". Multiply fewer bottoms at once"));
    }
    if (shapes.size() > 1) info.macs = c.Outer() * c.Inner();
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    const std::vector<Shape> shapes = Shapes(args.inputs);
    const Contraction c = ForwardContraction(EinsumTermsOf(*this, shapes), shapes);
    DispatchFloat(args.outputs[0].dtype(), [&]<typename T>(T) {
      EinsumOperands<T> operands{};
      for (size_t i = 0; i < shapes.size(); ++i) operands.data[i] = args.inputs[i].data<T>();
      Compute(args.context.threads(), c, operands, args.outputs[0].data<T>());
    });
  }

  void Backward(const BackwardArgs& args) const override {
    const std::vector<Shape> shapes = Shapes(args.inputs);
    const EinsumTerms terms = EinsumTermsOf(*this, shapes);
    DispatchFloat(args.output_grads[0].dtype(), [&]<typename T>(T) {
      for (size_t wanted = 0; wanted < shapes.size(); ++wanted) {
        const TensorView& dx = args.input_grads[wanted];
        if (dx.empty()) continue;
        std::fill_n(dx.data<T>(), dx.count(), T(0));  // beside a diagonal
        EinsumOperands<T> operands{};
        size_t at = 0;
        for (size_t i = 0; i < shapes.size(); ++i) {
          if (i != wanted) operands.data[at++] = args.inputs[i].data<T>();
        }
        operands.data[at] = args.output_grads[0].data<T>();
        Compute(args.context.threads(), GradientContraction(terms, shapes, wanted), operands,
                dx.data<T>());
      }
    });
  }

 private:
  static std::vector<Shape> Shapes(std::span<const ConstTensorView> inputs) {
    std::vector<Shape> shapes;
    for (const ConstTensorView& input : inputs) shapes.push_back(input.shape());
    return shapes;
  }

  template <typename T>
  static void Compute(int threads, const Contraction& c, const EinsumOperands<T>& operands, T* y) {
    const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, c.Inner()));
    ParallelFor(threads, c.Outer(), grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t place = 0;
        const double sum = Contract<double>(
            c, operands, i, [](T value) { return static_cast<double>(value); }, &place);
        y[place] = static_cast<T>(sum);
      }
    });
  }

  // Samples stay apart if the first label of the output is the first one, and only that, of each
  // input that has it. Elements do if an input has the labels of the output.
  static void SetReach(const EinsumTerms& terms, const std::vector<Shape>& shapes,
                       LayerInfo* info) {
    if (terms.output.empty()) return;
    const Label first = terms.output[0];
    const Shape y = OutputShape(terms);
    std::vector<bool> shared;
    Reach reach = Reach::kElement;
    for (size_t i = 0; i < shapes.size(); ++i) {
      const std::vector<Label>& input = terms.inputs[i];
      const auto times = std::ranges::count(input, first);
      if (times > 1 || (times == 1 && (input[0] != first || shapes[i][0] != y[0]))) return;
      shared.push_back(times == 0);
      if (input == terms.output && shapes[i] == y) continue;
      // Those of a channel are computed alike if it alone has factors.
      const bool by_channel = times == 0 && std::ranges::all_of(input, [&](Label label) {
                                return terms.output.size() > 1 && label == terms.output[1];
                              });
      reach = std::min(reach, times == 0 && input.empty() ? Reach::kElement
                              : by_channel                ? Reach::kPlace
                                                          : Reach::kSample);
    }
    if (std::ranges::count(shared, false) == 0) return;
    info->reach = reach;
    if (std::ranges::count(shared, true) > 0) info->shared_inputs = shared;
  }
};

}  // namespace

EinsumTerms EinsumTermsOf(const Layer& layer, const std::vector<Shape>& inputs) {
  const std::string equation = WithoutSpaces(layer.param().einsum_param().equation());
  const size_t arrow = equation.find("->");
  const std::vector<std::string> given = Split(equation.substr(0, arrow), ',');
  if (given.size() != inputs.size()) {
    FailEquation(layer, StrCat("has ", given.size(), " terms, but there are ", inputs.size(),
                               " bottoms; give one term for each"));
  }
  EinsumTerms terms;
  int ellipsis = 0;
  for (size_t i = 0; i < given.size(); ++i) {
    const int more = inputs[i].axes() - CountLetters(layer, given[i]);
    const bool dots = given[i].find(kDots) != std::string::npos;
    if (dots ? more < 0 : more != 0) {
      FailInputs(layer, StrCat("the term '", given[i], "' does not have the ", inputs[i].axes(),
                               " axes of bottom ", i, " of shape ", ToString(inputs[i])));
    }
    terms.inputs.push_back(LabelsOf(given[i], more));
    if (dots) ellipsis = std::max(ellipsis, more);
  }
  if (arrow == std::string::npos) {
    terms.output = ImpliedOutput(terms, ellipsis);
  } else {
    const std::string output = equation.substr(arrow + 2);
    CountLetters(layer, output);
    if (ellipsis > 0 && output.find(kDots) == std::string::npos) {
      FailEquation(layer, "has '...' before the arrow, but not after it");
    }
    terms.output = LabelsOf(output, ellipsis);
  }
  for (size_t k = 0; k < terms.output.size(); ++k) {
    const Label label = terms.output[k];
    const bool known =
        std::ranges::any_of(terms.inputs, [&](const auto& i) { return Has(i, label); });
    if (known && std::ranges::count(terms.output, label) == 1) continue;
    FailEquation(layer, StrCat("has the label '", std::string(1, static_cast<char>(label)),
                               "' in the output, which must be once there and in an input"));
  }
  SetSizes(layer, inputs, &terms);
  return terms;
}

Contraction ForwardContraction(const EinsumTerms& terms, const std::vector<Shape>& inputs) {
  Contraction c;
  c.operands = static_cast<int>(inputs.size());
  c.outer = static_cast<int>(terms.output.size());
  const Shape y = OutputShape(terms);
  for (size_t l = 0; l < terms.labels.size(); ++l) {
    std::vector<int64_t> from;
    for (size_t i = 0; i < inputs.size(); ++i) {
      from.push_back(StrideOf(terms.inputs[i], inputs[i], terms.labels[l]));
    }
    AddLabel(&c, terms.sizes[l], StrideOf(terms.output, y, terms.labels[l]), from);
  }
  return c;
}

Contraction GradientContraction(const EinsumTerms& terms, const std::vector<Shape>& inputs,
                                size_t wanted) {
  Contraction c;
  c.operands = static_cast<int>(inputs.size());
  const Shape y = OutputShape(terms);
  for (const bool outer : {true, false}) {
    for (size_t l = 0; l < terms.labels.size(); ++l) {
      const Label label = terms.labels[l];
      const int64_t to = StrideOf(terms.inputs[wanted], inputs[wanted], label);
      if ((to != 0) != outer) continue;
      std::vector<int64_t> from;
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (i != wanted) from.push_back(StrideOf(terms.inputs[i], inputs[i], label));
      }
      from.push_back(StrideOf(terms.output, y, label));
      AddLabel(&c, terms.sizes[l], to, from);
      if (outer) ++c.outer;
    }
  }
  return c;
}

void RegisterEinsum(Registry& registry) {
  LayerType type;
  type.name = "Einsum";
  type.category = "arithmetic";
  type.summary = "Sums of products over labelled axes, by Einstein's convention.";
  type.formula =
      "y = sum over the labels that the output lacks of x_0 * x_1 * .., each at its labels. It is "
      "Einsum of ONNX and NumPy. MatMul is faster if it computes the same";
  type.input_docs = {
      "x_i: an axis for each label of its term; axes with one label have one size, "
      "or 1, which is repeated"};
  type.output_docs = {"y: an axis for each label of the output"};
  type.origin = "Crema";
  type.param_fields = {"einsum_param"};
  type.inputs = {1, Contraction::kMostOperands};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Einsum>(p); };
  const auto sample = [](std::string name, const std::string& equation,
                         const std::vector<std::vector<int64_t>>& shapes) {
    LayerSample made{.name = std::move(name),
                     .prototxt = "einsum_param { equation: '" + equation + "' }",
                     .inputs = {}};
    for (const std::vector<int64_t>& shape : shapes) made.inputs.push_back({.shape = shape});
    return made;
  };
  type.samples = {
      sample("product", "bij,bjk->bik", {{2, 3, 4}, {2, 4, 5}}),
      sample("implied", "ij, jk", {{2, 3}, {3, 4}}),
      sample("transpose", "bij->bji", {{2, 3, 4}}),
      sample("diagonal", "bii->bi", {{2, 4, 4}}),
      sample("trace", "bii->b", {{2, 4, 4}}),
      sample("sum", "...i->...", {{2, 3, 5}}),
      sample("ellipses", "...ij,...jk->...ik", {{2, 1, 3, 4}, {5, 4, 2}}),
      sample("outer", "bi,bj->bij", {{2, 3}, {2, 4}}),
      sample("elements", "bij,bij->bij", {{2, 3, 4}, {2, 3, 4}}),
      sample("channels", "bcs,c->bcs", {{2, 3, 4}, {3}}),
      sample("shared_weights", "bsd,hdk->bhsk", {{2, 3, 4}, {2, 4, 3}}),
      sample("three", "bi,ij,bj->b", {{2, 3}, {3, 4}, {2, 4}}),
      sample("all", "ij->", {{3, 4}}),
      sample("large", "bij,bkj->bik", {{2, 40, 30}, {2, 50, 30}}),
      sample("nothing_to_sum", "bij,bjk->bik", {{2, 3, 0}, {2, 0, 4}}),
      sample("empty_batch", "bij,bjk->bik", {{0, 3, 2}, {0, 2, 4}}),
  };
  const auto bad = [](const std::string& equation, std::vector<std::vector<int64_t>> shapes,
                      std::string expect) {
    return BadSample{"einsum_param { equation: '" + equation + "' }", std::move(shapes),
                     std::move(expect)};
  };
  type.bad_samples = {
      {"", {{2}}, "is missing"},
      bad("i,j", {{2}}, "has 2 terms, but there are 1 bottoms"),
      bad("i1->i", {{2, 2}}, "has '1' in the term 'i1'"),
      bad("i......->i", {{2}}, "at most one"),
      bad("ij->i", {{2}}, "does not have the 1 axes"),
      bad("...ij->...", {{2}}, "does not have the 1 axes"),
      bad("i->j", {{2}}, "has the label 'j'"),
      bad("i->ii", {{2}}, "has the label 'i'"),
      bad("...i->i", {{2, 2}}, "but not after it"),
      bad("i,i->i", {{2}, {3}}, "sizes 2 and 3"),
      bad("a,b,c,d,e,f,g,h,i->", {{1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}}, "at most 8"),
  };
  registry.Add(std::move(type));
}

}  // namespace crema
