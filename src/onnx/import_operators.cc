#include "onnx/import_operators.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>

#include "core/strings.h"

namespace crema {
namespace {

// A line for each operator that the importer reads: the kinds of its inputs, in any opset, and its
// attributes. Kinds: `f` floats, `i` whole numbers, `b` booleans, `?` no tensor; inputs with the
// same capital letter are of one kind; `*`: any number of inputs, with a V of one kind.
// `@9` and `<13`: the opsets from 9 on, and before 13, if others lack the input or attribute. Made
// by tests/onnx/operators.py; do not edit.
constexpr std::string_view kTable = R"(
Abs fi | consumed_inputs<6
Acos f
Acosh f
Add Afi Afi | axis<7 broadcast<7 consumed_inputs<6
AffineGrid f i | align_corners
And b b | axis<7 broadcast<7
ArgMax fi | axis keepdims select_last_index@12
ArgMin fi | axis keepdims select_last_index@12
Asin f
Asinh f
Atan f
Atanh f
Attention f f f bfi f f i@24 | is_causal kv_num_heads left_window_size@25 q_num_heads
 qk_matmul_output_mode right_window_size@25 scale softcap softmax_precision
AveragePool f | auto_pad ceil_mode@10 count_include_pad@7 dilations@19 kernel_shape pads strides
BatchNormalization f f f f f | consumed_inputs<6 epsilon is_test<7 momentum spatial<9
 training_mode@14
BitShift i i | direction
BitwiseAnd i i
BitwiseNot i
BitwiseOr i i
BitwiseXor i i
BlackmanWindow i | output_datatype periodic
Cast bfi | round_mode@24 saturate@19 to
CastLike bfi bfi | round_mode@24 saturate@19
CausalConvWithState f f f f | activation
Ceil f | consumed_inputs<6
Celu f | alpha
CenterCropPad bfi i | axes
Clip Afi Afi@11 Afi@11 | consumed_inputs<6 max<11 min<11
Col2Im bfi i i | dilations pads strides
Compress bfi b | axis
Concat Vbfi* | axis
ConcatFromSequence ? | axis new_axis
Constant | sparse_value@11 value value_float@12 value_floats@12 value_int@12 value_ints@12
 value_string@12 value_strings@12
ConstantOfShape i | value
Conv f f f | auto_pad dilations group kernel_shape pads strides
ConvInteger i i i i | auto_pad dilations group kernel_shape pads strides
ConvTranspose f f f | auto_pad dilations group kernel_shape output_padding output_shape pads
 strides
Cos f
Cosh f
CumProd fi i | exclusive reverse
CumSum fi i | exclusive reverse
DFT f i i@20 | axis<20 inverse onesided
DeformConv f f f f f | dilations group kernel_shape offset_group pads strides
DepthToSpace bfi | blocksize mode@11
DequantizeLinear Afi f Afi | axis@13 block_size@21 output_dtype@23
Div Afi Afi | axis<7 broadcast<7 consumed_inputs<6
Dropout f f@12 b@12 | consumed_inputs<6 is_test<7 ratio<12 seed@12
DynamicQuantizeLinear f
Einsum Vfi* | equation
Elu f | alpha consumed_inputs<6
Equal Abfi Abfi | axis<7 broadcast<7
Erf fi
Exp f | consumed_inputs<6
Expand bfi i
EyeLike bfi | dtype k
Flatten bfi | axis
Floor f | consumed_inputs<6
GRU f f f f i f | activation_alpha activation_beta activations clip direction hidden_size layout@14
 linear_before_reset@3 output_sequence<7
Gather bfi i | axis
GatherElements bfi i | axis
GatherND bfi i | batch_dims@12
Gelu f | approximate
Gemm Afi Afi Afi | alpha beta broadcast<7 transA transB
GlobalAveragePool f
GlobalLpPool f | p
GlobalMaxPool f
Greater Afi Afi | axis<7 broadcast<7
GreaterOrEqual Afi Afi
GridSample bfi f | align_corners mode padding_mode
GroupNormalization f f f | epsilon num_groups stash_type@21
HammingWindow i | output_datatype periodic
HannWindow i | output_datatype periodic
HardSigmoid f | alpha beta consumed_inputs<6
HardSwish f
Hardmax f | axis
Identity ?
If b | else_branch then_branch
InstanceNormalization f f f | consumed_inputs<6 epsilon
IsInf f | detect_negative detect_positive
IsNaN f
LRN f | alpha beta bias size
LSTM f f f f i f f f | activation_alpha activation_beta activations clip direction hidden_size
 input_forget layout@14 output_sequence<7
LayerNormalization f f f | axis epsilon stash_type
LeakyRelu f | alpha consumed_inputs<6
Less Afi Afi | axis<7 broadcast<7
LessOrEqual Afi Afi
LinearAttention f f f f f f | chunk_size kv_num_heads q_num_heads scale update_rule
Log f | consumed_inputs<6
LogSoftmax f | axis
Loop i b ?* | body
LpNormalization f | axis p
LpPool f | auto_pad ceil_mode@18 dilations@18 kernel_shape p pads strides
MatMul Afi Afi
MatMulInteger i i i i
Max Vfi* | consumed_inputs<6
MaxPool fi | auto_pad ceil_mode@10 dilations@10 kernel_shape pads storage_order@8 strides
MaxRoiPool f f | pooled_shape spatial_scale
MaxUnpool f i i | kernel_shape pads strides
Mean f* | consumed_inputs<6
MeanVarianceNormalization f | axes
Min Vfi* | consumed_inputs<6
Mish f
Mod Afi Afi | fmod
Mul Afi Afi | axis<7 broadcast<7 consumed_inputs<6
Neg fi | consumed_inputs<6
NegativeLogLikelihoodLoss f i f | ignore_index reduction
NonMaxSuppression f f i f f | center_point_box
NonZero bfi
Not b
OneHot fi fi bfi | axis
OptionalGetElement ?
OptionalHasElement ?
Or b b | axis<7 broadcast<7
PRelu Afi Afi | consumed_inputs<6
Pad Abfi i@11 Abfi@11 i@18 | mode paddings<2 pads@2<11 value<11
Pow fi fi | axis<7 broadcast<7
QLinearConv i f i i f i f i i | auto_pad dilations group kernel_shape pads strides
QLinearMatMul Afi f Afi Bfi f Bfi f fi
QuantizeLinear fi fi fi | axis@13 block_size@21 output_dtype@21 precision@23 saturate@19
RMSNormalization f f | axis epsilon stash_type
RNN f f f f i f | activation_alpha activation_beta activations clip direction hidden_size layout@14
 output_sequence<7
Range Afi Afi Afi | stash_type@27
Reciprocal f | consumed_inputs<6
ReduceL1 fi i@18 | axes<18 keepdims noop_with_empty_axes@18
ReduceL2 fi i@18 | axes<18 keepdims noop_with_empty_axes@18
ReduceLogSum fi i@18 | axes<18 keepdims noop_with_empty_axes@18
ReduceLogSumExp fi i@18 | axes<18 keepdims noop_with_empty_axes@18
ReduceMax bfi i@18 | axes<18 keepdims noop_with_empty_axes@18
ReduceMean fi i@18 | axes<18 keepdims noop_with_empty_axes@18
ReduceMin bfi i@18 | axes<18 keepdims noop_with_empty_axes@18
ReduceProd fi i@18 | axes<18 keepdims noop_with_empty_axes@18
ReduceSum fi i@13 | axes<13 keepdims noop_with_empty_axes@13
ReduceSumSquare fi i@18 | axes<18 keepdims noop_with_empty_axes@18
Relu fi | consumed_inputs<6
Reshape bfi i@5 | allowzero@14 consumed_inputs<5 shape<5
Resize bfi f f@11 i@11 | antialias@18 axes@18 coordinate_transformation_mode@11 cubic_coeff_a@11
 exclude_outside@11 extrapolation_value@11 keep_aspect_ratio_policy@18 mode nearest_mode@11
ReverseSequence bfi i | batch_axis time_axis
RoiAlign f f i | coordinate_transformation_mode@16 mode output_height output_width sampling_ratio
 spatial_scale
RotaryEmbedding f f f i | interleaved num_heads rotary_embedding_dim
Round f
STFT f i f i | onesided
Scan bfi* bfi*<9 | body directions<9 num_scan_inputs scan_input_axes@9 scan_input_directions@9
 scan_output_axes@9 scan_output_directions@9
Scatter Abfi i Abfi | axis
ScatterElements Abfi i Abfi | axis reduction@16
ScatterND Abfi i Abfi | reduction@16
Selu f | alpha consumed_inputs<6 gamma
SequenceAt ? i
SequenceConstruct Vbfi*
SequenceEmpty | dtype
SequenceErase ? i
SequenceInsert ? bfi i
SequenceLength ?
Shape bfi | end@15 start@15
Shrink fi | bias lambd
Sigmoid f | consumed_inputs<6
Sign fi
Sin f
Sinh f
Size bfi
Slice bfi i@10 i@10 i@10 i@10 | axes<10 ends<10 starts<10
Softmax f | axis
SoftmaxCrossEntropyLoss f i f | ignore_index reduction
Softplus f
Softsign f
SpaceToDepth bfi | blocksize mode@28
Split bfi fi | axis num_outputs@18 split<13
SplitToSequence bfi i | axis keepdims
Sqrt f | consumed_inputs<6
Squeeze bfi i@13 | axes<13
Sub Afi Afi | axis<7 broadcast<7 consumed_inputs<6
Sum f* | consumed_inputs<6
SwiGLU f f | alpha
Swish f | alpha
Tan f
Tanh f | consumed_inputs<6
TensorScatter Abfi Abfi i | axis mode
ThresholdedRelu f | alpha
Tile bfi fi f<6
TopK fi i@10 | axis k<10 largest@11 sorted@11
Transpose bfi | perm
Trilu bfi i | upper
Unsqueeze bfi i@13 | axes<13
Upsample bfi f@9 | height_scale<7 mode scales@7<9 width_scale<7
Where b Abfi Abfi
Xor b b | axis<7 broadcast<7
)";

// A word of the table.
struct Word {
  std::string name;
  int64_t since = 0;
  int64_t until = std::numeric_limits<int64_t>::max();

  bool IsIn(int64_t opset) const { return opset >= since && opset < until; }
};

Word ParseWord(const std::string& text) {
  Word word{text.substr(0, text.find_first_of("@<"))};
  const size_t since = text.find('@');
  const size_t until = text.find('<');
  if (since != std::string::npos) word.since = std::stoll(text.substr(since + 1));
  if (until != std::string::npos) word.until = std::stoll(text.substr(until + 1));
  return word;
}

struct Operator {
  std::vector<Word> inputs, attributes;
};

std::map<std::string, Operator> ReadTable() {
  std::map<std::string, Operator> operators;
  std::vector<Word>* words = nullptr;
  std::string name;
  for (const std::string& line : crema::Split(kTable, '\n')) {
    bool first = !line.starts_with(' ');  // other lines go on
    for (const std::string& text : crema::Split(Trim(line), ' ')) {
      if (text.empty()) continue;
      if (first) name = text;
      if (first || text == "|") {
        words = first ? &operators[name].inputs : &operators[name].attributes;
      } else {
        words->push_back(ParseWord(text));
      }
      first = false;
    }
  }
  return operators;
}

// Returns 'f', 'i' or 'b'; 0: unknown.
char KindOf(int type) {
  if (!IsNumberType(type)) return 0;
  return IsFloatType(type) ? 'f' : type == onnx::TensorProto::BOOL ? 'b' : 'i';
}

std::string KindNames(std::string_view kinds) {
  std::vector<std::string> names;
  if (kinds.find('f') != std::string_view::npos) names.emplace_back("floats");
  if (kinds.find('i') != std::string_view::npos) names.emplace_back("whole numbers");
  if (kinds.find('b') != std::string_view::npos) names.emplace_back("booleans");
  return Join(names, " or ");
}

std::string WhyNoAttribute(const OnnxNode& node, const Operator& op) {
  for (const auto& attribute : node.proto.attribute()) {
    const std::string& name = attribute.name();
    // Names that begin so are for tools: onnx.checker accepts them anywhere.
    if (name == kOpsetAttribute || name.starts_with("__")) continue;
    const auto found = std::ranges::find(op.attributes, name, &Word::name);
    if (found != op.attributes.end() && found->IsIn(node.opset)) continue;
    std::string when;
    if (found != op.attributes.end()) {
      when = node.opset < found->since ? StrCat(" before opset ", found->since)
                                       : StrCat(" from opset ", found->until, " on");
    }
    return StrCat("has the attribute '", name, "', which ", node.proto.op_type(), " lacks", when);
  }
  return "";
}

}  // namespace

std::string WhyNoOperator(const OnnxNode& node, const std::vector<int>& types) {
  static const std::map<std::string, Operator> kOperators = ReadTable();
  const std::string& name = node.proto.op_type();
  const auto op = kOperators.find(name);
  if (op == kOperators.end()) return "";
  if (std::string why = WhyNoAttribute(node, op->second); !why.empty()) return why;
  std::vector<Word> inputs = op->second.inputs;
  std::erase_if(inputs, [&](const Word& word) { return !word.IsIn(node.opset); });
  std::map<char, std::pair<size_t, char>> kinds;  // by capital letter: the first input, its kind
  for (size_t i = 0; i < types.size(); ++i) {
    const bool any = !inputs.empty() && inputs.back().name.back() == '*';
    if (i >= inputs.size() && !any) {
      if (node.proto.input(static_cast<int>(i)).empty()) continue;
      return StrCat("has an input ", i, ", but ", name, " takes ", inputs.size());
    }
    const std::string_view word = inputs[std::min(i, inputs.size() - 1)].name;
    const char kind = KindOf(types[i]);
    if (kind == 0 || word[0] == '?') continue;
    if (word.find(kind) == std::string_view::npos) {
      return StrCat("its input ", i, " is ", OnnxTypeName(types[i]), ", but ", name, " takes ",
                    KindNames(word), " there");
    }
    if (word[0] < 'A' || word[0] > 'Z') continue;
    const auto& [first, wanted] = kinds.try_emplace(word[0], i, kind).first->second;
    if (kind == wanted) continue;
    return StrCat("its inputs ", first, " and ", i, " are ", OnnxTypeName(types[first]), " and ",
                  OnnxTypeName(types[i]), ", but ", name, " takes one type");
  }
  return "";
}

}  // namespace crema
