#include "format/pickle.h"

#include <algorithm>
#include <span>
#include <unordered_map>

#include "core/error.h"
#include "core/strings.h"
#include "format/pickle_names.h"
#include "format/pickle_reader.h"

namespace crema {
namespace {

using Kind = PickledValue::Kind;

constexpr int kHighestProtocol = 5;

// The stack machine of pickles.
class Machine {
 public:
  Machine(std::string_view bytes, const std::string& name) : in_(bytes, name) {}

  Pickle Run() {
    if (in_.Byte() != 0x80) {
      in_.Refuse("it begins without PROTO: pickles of protocol 0 and 1 are not read");
    }
    const uint8_t protocol = in_.Byte();
    if (protocol < 2 || protocol > kHighestProtocol) {
      in_.Refuse(StrCat("its protocol is ", int{protocol}, "; 2 to 5 are read"));
    }
    none_ = Add({});
    true_ = Add({.number = 1});
    for (uint8_t op = in_.Opcode(); op != '.'; op = in_.Opcode()) {
      if (!RunConstant(op) && !RunContainer(op) && !RunMemo(op) && !RunObject(op)) RefuseOpcode(op);
    }
    pickle_.root = Pop();
    if (!stack_.empty() || !marks_.empty()) in_.Damaged("it ends with values left over");
    pickle_.size = in_.at();
    return std::move(pickle_);
  }

 private:
  [[noreturn]] void RefuseOpcode(uint8_t op) const {
    const std::string_view name = PickleOpcodeName(op);
    if (name.empty()) in_.Damaged(StrCat("byte ", int{op}, " is no opcode"));
    in_.Refuse(StrCat(name, " is not an opcode that plain tensors need, and nothing is executed"));
  }

  uint32_t Add(PickledValue value) {
    pickle_.values.push_back(std::move(value));
    return static_cast<uint32_t>(pickle_.values.size() - 1);
  }
  void Push(PickledValue value) { stack_.push_back(Add(std::move(value))); }
  void PushInteger(int64_t number) { Push({.kind = Kind::kInteger, .number = number}); }

  size_t Floor() const { return marks_.empty() ? 0 : marks_.back(); }
  uint32_t Pop() {
    if (stack_.size() <= Floor()) in_.Damaged("it takes a value from an empty stack");
    const uint32_t value = stack_.back();
    stack_.pop_back();
    return value;
  }
  PickledValue& Top() {
    if (stack_.size() <= Floor()) in_.Damaged("it takes a value from an empty stack");
    return pickle_.values[stack_.back()];
  }
  std::vector<uint32_t> PopMany(size_t count) {
    if (stack_.size() - Floor() < count) in_.Damaged("it takes a value from an empty stack");
    std::vector<uint32_t> values(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return values;
  }
  std::vector<uint32_t> PopToMark() {
    if (marks_.empty()) in_.Damaged("it has no MARK where one belongs");
    std::vector<uint32_t> values = PopMany(stack_.size() - marks_.back());
    marks_.pop_back();
    return values;
  }

  bool RunConstant(uint8_t op) {
    if (const size_t size = BytesOfTextLength(op); size > 0) {
      Push({.kind = Kind::kText, .text = in_.Text(in_.Number(size))});
      return true;
    }
    switch (op) {
      case 0x88:  // NEWTRUE
        stack_.push_back(true_);
        return true;
      case 'N':   // NONE
      case 0x89:  // NEWFALSE
        stack_.push_back(none_);
        return true;
      case 'J':  // BININT
        PushInteger(static_cast<int32_t>(in_.Number(4)));
        return true;
      case 'K':  // BININT1
        PushInteger(static_cast<int64_t>(in_.Number(1)));
        return true;
      case 'M':  // BININT2
        PushInteger(static_cast<int64_t>(in_.Number(2)));
        return true;
      case 0x8A:  // LONG1
        PushLong();
        return true;
      case 'G':  // BINFLOAT
        in_.Text(8);
        stack_.push_back(none_);
        return true;
      default:
        return false;
    }
  }

  // Returns the size of the length that follows an opcode of a string or of bytes; 0: it is none.
  static size_t BytesOfTextLength(uint8_t op) {
    switch (op) {
      case 0x8C:  // SHORT_BINUNICODE
      case 'U':   // SHORT_BINSTRING
      case 'C':   // SHORT_BINBYTES
        return 1;
      case 'X':  // BINUNICODE
      case 'T':  // BINSTRING
      case 'B':  // BINBYTES
        return 4;
      case 0x8D:  // BINUNICODE8
      case 0x8E:  // BINBYTES8
        return 8;
      default:
        return 0;
    }
  }

  // Numbers of more than 8 bytes are only compared as text.
  void PushLong() {
    const std::string_view bytes = in_.Text(in_.Number(1));
    if (bytes.size() > 8) return Push({.kind = Kind::kPlain, .text = bytes});
    uint64_t number = !bytes.empty() && (bytes.back() & 0x80) != 0 ? ~uint64_t{0} : 0;
    for (size_t i = bytes.size(); i-- > 0;) number = number << 8 | static_cast<uint8_t>(bytes[i]);
    PushInteger(static_cast<int64_t>(number));
  }

  bool RunContainer(uint8_t op) {
    switch (op) {
      case '(':  // MARK
        marks_.push_back(stack_.size());
        return true;
      case ')':  // EMPTY_TUPLE
        Push({.kind = Kind::kTuple});
        return true;
      case 't':  // TUPLE
        Push({.kind = Kind::kTuple, .items = PopToMark()});
        return true;
      case 0x85:
      case 0x86:
      case 0x87:  // TUPLE1 to TUPLE3
        Push({.kind = Kind::kTuple, .items = PopMany(op - size_t{0x84})});
        return true;
      case ']':  // EMPTY_LIST
        Push({.kind = Kind::kList});
        return true;
      case '}':  // EMPTY_DICT
        Push({.kind = Kind::kDict});
        return true;
      case 'a':  // APPEND
        AppendTo(Kind::kList, PopMany(1));
        return true;
      case 'e':  // APPENDS
        AppendTo(Kind::kList, PopToMark());
        return true;
      case 's':  // SETITEM
        AppendTo(Kind::kDict, PopMany(2));
        return true;
      case 'u':  // SETITEMS
        AppendTo(Kind::kDict, PopToMark());
        return true;
      default:
        return false;
    }
  }

  void AppendTo(Kind kind, const std::vector<uint32_t>& items) {
    PickledValue& target = Top();
    const bool dict = kind == Kind::kDict;
    if (target.kind != kind) in_.Damaged(StrCat("it adds items to no ", dict ? "dict" : "list"));
    if (dict && items.size() % 2 != 0) in_.Damaged("a dict has a key without a value");
    target.items.insert(target.items.end(), items.begin(), items.end());
  }

  bool RunMemo(uint8_t op) {
    switch (op) {
      case 'q':  // BINPUT
        Memoize(in_.Number(1));
        return true;
      case 'r':  // LONG_BINPUT
        Memoize(in_.Number(4));
        return true;
      case 0x94:  // MEMOIZE
        Memoize(memo_.size());
        return true;
      case 'h':  // BINGET
        PushMemo(in_.Number(1));
        return true;
      case 'j':  // LONG_BINGET
        PushMemo(in_.Number(4));
        return true;
      case 0x95:  // FRAME
        in_.Number(8);
        return true;
      default:
        return false;
    }
  }

  void Memoize(uint64_t index) {
    Top();
    memo_[index] = stack_.back();
  }
  void PushMemo(uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) in_.Damaged(StrCat("it has nothing at ", index, " of its memo"));
    stack_.push_back(found->second);
  }

  bool RunObject(uint8_t op) {
    switch (op) {
      case 'c': {  // GLOBAL
        const std::string_view module = in_.Line();
        PushGlobal(module, in_.Line());
        return true;
      }
      case 0x93: {  // STACK_GLOBAL
        const std::vector<uint32_t> names = PopMany(2);
        PushGlobal(TextOf(names[0]), TextOf(names[1]));
        return true;
      }
      case 'Q':  // BINPERSID
        PushStorage(pickle_.values[Pop()]);
        return true;
      case 'R': {  // REDUCE
        const uint32_t arguments = Pop();
        const uint32_t function = Pop();
        stack_.push_back(Call(function, arguments));
        return true;
      }
      case 'b':  // BUILD: attributes, such as _metadata of a state dict
        Pop();
        if (const Kind kind = Top().kind; kind != Kind::kDict && kind != Kind::kPlain) {
          in_.Refuse("BUILD sets attributes of something else than a dict");
        }
        return true;
      default:
        return false;
    }
  }

  std::string_view TextOf(uint32_t index) const {
    const PickledValue& value = pickle_.values[index];
    if (value.kind != Kind::kText) in_.Damaged("a name is not a string");
    return value.text;
  }

  void PushGlobal(std::string_view module, std::string_view name) {
    const int index = FindAllowedGlobal(module, name);
    if (index < 0) {
      in_.Refuse(StrCat("it asks for ", Printable(module), ".", Printable(name),
                        ", which is not on the list of what state dicts need"));
    }
    Push({.kind = Kind::kGlobal, .number = index, .text = AllowedGlobalAt(index).name});
  }

  static std::string Printable(std::string_view text) {
    constexpr size_t kMost = 80;
    std::string printed(text.substr(0, kMost));
    for (char& c : printed) c = c < ' ' || c > '~' ? '?' : c;
    return text.size() > kMost ? printed + "..." : printed;
  }

  const AllowedGlobal* GlobalOf(uint32_t index) const {
    const PickledValue& value = pickle_.values[index];
    if (value.kind != Kind::kGlobal) return nullptr;
    return &AllowedGlobalAt(static_cast<int>(value.number));
  }

  // ('storage', type, key, location, count), and None or a view of another storage in old files.
  void PushStorage(const PickledValue& id) {
    const std::span<const uint32_t> items = id.items;
    if (id.kind != Kind::kTuple || items.size() < 5 || TextOf(items[0]) != "storage") {
      in_.Refuse("it refers to something outside of it that is no storage of a tensor");
    }
    const AllowedGlobal* type = GlobalOf(items[1]);
    if (type != nullptr && type->global == PickleGlobal::kUnreadType) RefuseType(*type);
    if (type == nullptr || type->global != PickleGlobal::kStorageType) {
      in_.Damaged("a storage has no type");
    }
    if (items.size() > 5 && items[5] != none_) {
      in_.Refuse("a storage is a view of another one; save the tensors with .clone()");
    }
    const uint64_t count = CountOf(items[4]);
    pickle_.storages.push_back({.type = type->type, .key = TextOf(items[2]), .count = count});
    Push({.kind = Kind::kStorage, .number = static_cast<int64_t>(pickle_.storages.size() - 1)});
  }

  [[noreturn]] void RefuseType(const AllowedGlobal& type) const {
    in_.Refuse(StrCat("a tensor is of ", type.name, "; save it as float32: .to(torch.float32)"));
  }

  uint64_t CountOf(uint32_t index) const {
    constexpr int64_t kMost = int64_t{1} << 40;
    const PickledValue& value = pickle_.values[index];
    if (value.kind != Kind::kInteger || value.number < 0 || value.number > kMost) {
      in_.Damaged("a size or an offset of a tensor is no number, negative or too large");
    }
    return static_cast<uint64_t>(value.number);
  }

  uint32_t Call(uint32_t function, uint32_t arguments) {
    const AllowedGlobal* called = GlobalOf(function);
    if (called == nullptr) in_.Damaged("it calls something that is no function");
    if (pickle_.values[arguments].kind != Kind::kTuple) in_.Damaged("arguments are no tuple");
    const std::span<const uint32_t> items = pickle_.values[arguments].items;
    const auto require = [&](size_t least) {
      if (items.size() < least) in_.Damaged(StrCat(called->name, " has too few arguments"));
    };
    switch (called->global) {
      case PickleGlobal::kOrderedDict:
        return MakeDict(items);
      case PickleGlobal::kRebuildTensor:
      case PickleGlobal::kRebuildTensorV2:
        require(4);
        return MakeTensor(items, nullptr);
      case PickleGlobal::kRebuildTensorV3:
        require(7);
        return MakeTensor(items, GlobalOf(items[6]));
      case PickleGlobal::kRebuildParameter:
        require(1);
        if (pickle_.values[items[0]].kind != Kind::kTensor)
          in_.Damaged("a parameter is not a tensor");
        return items[0];
      case PickleGlobal::kRebuildFromType:
        require(3);
        return CallForType(items);
      case PickleGlobal::kSize:
        require(1);
        return items[0];
      case PickleGlobal::kPlainCall:
        return none_;
      default:
        in_.Refuse(StrCat("it calls ", called->name, ", which is only allowed as an argument"));
    }
  }

  // (function, type, arguments, state): a tensor with attributes of its own.
  uint32_t CallForType(std::span<const uint32_t> items) {
    const AllowedGlobal* function = GlobalOf(items[0]);
    const bool rebuilds =
        function != nullptr && (function->global == PickleGlobal::kRebuildTensorV2 ||
                                function->global == PickleGlobal::kRebuildTensorV3 ||
                                function->global == PickleGlobal::kRebuildParameter);
    if (!rebuilds) in_.Refuse("a tensor is rebuilt by another function than PyTorch's own");
    return Call(items[0], items[2]);
  }

  // () or ([(key, value), ...]).
  uint32_t MakeDict(std::span<const uint32_t> items) {
    PickledValue dict{.kind = Kind::kDict};
    if (!items.empty()) {
      const std::vector<uint32_t>& pairs = pickle_.values[items[0]].items;
      copied_ += pairs.size();
      if (copied_ > in_.at()) in_.Refuse("it copies one list again and again");
      for (const uint32_t pair : pairs) {
        const PickledValue& p = pickle_.values[pair];
        const bool sequence = p.kind == Kind::kTuple || p.kind == Kind::kList;
        if (!sequence || p.items.size() != 2) in_.Damaged("an OrderedDict is made of no pairs");
        dict.items.insert(dict.items.end(), p.items.begin(), p.items.end());
      }
    }
    return Add(std::move(dict));
  }

  // (storage, offset, size, stride, ...); `dtype` is that of an untyped storage.
  uint32_t MakeTensor(std::span<const uint32_t> items, const AllowedGlobal* dtype) {
    const PickledValue& storage = pickle_.values[items[0]];
    if (storage.kind != Kind::kStorage) in_.Damaged("a tensor has no storage");
    PickledTensor tensor{.storage = static_cast<size_t>(storage.number)};
    tensor.type = pickle_.storages[tensor.storage].type;
    if (dtype != nullptr) {
      if (dtype->global == PickleGlobal::kUnreadType) RefuseType(*dtype);
      if (dtype->global != PickleGlobal::kDType) in_.Damaged("a tensor has no type");
      tensor.type = dtype->type;
    }
    tensor.offset = CountOf(items[1]);
    std::vector<int64_t> dims = NumbersOf(items[2]);
    tensor.strides = NumbersOf(items[3]);
    try {
      tensor.shape = Shape(dims);
    } catch (const Error& error) {
      in_.Damaged(StrCat("the shape of a tensor: ", error.problems().front().message));
    }
    CheckTensor(tensor);
    pickle_.tensors.push_back(std::move(tensor));
    return Add({.kind = Kind::kTensor, .number = static_cast<int64_t>(pickle_.tensors.size() - 1)});
  }

  std::vector<int64_t> NumbersOf(uint32_t index) const {
    const PickledValue& value = pickle_.values[index];
    if (value.kind != Kind::kTuple) in_.Damaged("a size or a stride of a tensor is no tuple");
    if (value.items.size() > Shape::kMaxAxes) in_.Damaged("a tensor has more than 32 axes");
    std::vector<int64_t> numbers;
    for (const uint32_t item : value.items) numbers.push_back(static_cast<int64_t>(CountOf(item)));
    return numbers;
  }

  void CheckTensor(const PickledTensor& tensor) const {
    const PickledStorage& storage = pickle_.storages[tensor.storage];
    if (tensor.strides.size() != static_cast<size_t>(tensor.shape.axes())) {
      in_.Damaged("a tensor has another number of strides than of axes");
    }
    const uint64_t size = SizeOf(storage.type) * storage.count / SizeOf(tensor.type);
    if (tensor.shape.count() == 0) return;
    // Each term is below 2^31 * 2^40, and there are 32 at most.
    unsigned __int128 last = tensor.offset;
    bool repeats = false;
    for (int axis = 0; axis < tensor.shape.axes(); ++axis) {
      const auto stride = static_cast<uint64_t>(tensor.strides[static_cast<size_t>(axis)]);
      repeats = repeats || (stride == 0 && tensor.shape[axis] > 1);
      last += static_cast<unsigned __int128>(tensor.shape[axis] - 1) * stride;
    }
    if (last >= size) in_.Damaged("a tensor has elements outside of its storage");
    if (repeats || static_cast<uint64_t>(tensor.shape.count()) > size) {
      in_.Refuse("a tensor repeats elements (expand); save it with .contiguous()");
    }
  }

  PickleBytes in_;
  Pickle pickle_;
  std::vector<uint32_t> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, uint32_t> memo_;
  uint64_t copied_ = 0;  // items of lists, of all calls
  uint32_t none_ = 0;    // also False, floats, objects without meaning
  uint32_t true_ = 0;
};

}  // namespace

Pickle ReadPickle(std::string_view bytes, const std::string& name) {
  return Machine(bytes, name).Run();
}

}  // namespace crema
