#include "format/pickle_names.h"

#include <array>

namespace crema {
namespace {

using G = PickleGlobal;
using E = ElementType;

constexpr std::array kAllowed = {
    AllowedGlobal{"collections.OrderedDict", G::kOrderedDict},
    AllowedGlobal{"torch._utils._rebuild_tensor", G::kRebuildTensor},
    AllowedGlobal{"torch._utils._rebuild_tensor_v2", G::kRebuildTensorV2},
    AllowedGlobal{"torch._utils._rebuild_tensor_v3", G::kRebuildTensorV3},
    AllowedGlobal{"torch._utils._rebuild_parameter", G::kRebuildParameter},
    AllowedGlobal{"torch._utils._rebuild_parameter_with_state", G::kRebuildParameter},
    AllowedGlobal{"torch._tensor._rebuild_from_type_v2", G::kRebuildFromType},
    AllowedGlobal{"torch.Size", G::kSize},
    AllowedGlobal{"torch.device", G::kPlainCall},
    AllowedGlobal{"numpy.dtype", G::kPlainCall},
    AllowedGlobal{"numpy.core.multiarray.scalar", G::kPlainCall},
    AllowedGlobal{"numpy._core.multiarray.scalar", G::kPlainCall},
    AllowedGlobal{"_codecs.encode", G::kPlainCall},
    AllowedGlobal{"torch.Tensor", G::kClass},
    AllowedGlobal{"torch.nn.parameter.Parameter", G::kClass},
    AllowedGlobal{"torch.nn.parameter.Buffer", G::kClass},
    AllowedGlobal{"torch.DoubleStorage", G::kStorageType, E::kF64},
    AllowedGlobal{"torch.FloatStorage", G::kStorageType, E::kF32},
    AllowedGlobal{"torch.HalfStorage", G::kStorageType, E::kF16},
    AllowedGlobal{"torch.BFloat16Storage", G::kStorageType, E::kBF16},
    AllowedGlobal{"torch.LongStorage", G::kStorageType, E::kI64},
    AllowedGlobal{"torch.IntStorage", G::kStorageType, E::kI32},
    AllowedGlobal{"torch.ShortStorage", G::kStorageType, E::kI16},
    AllowedGlobal{"torch.CharStorage", G::kStorageType, E::kI8},
    AllowedGlobal{"torch.ByteStorage", G::kStorageType, E::kU8},
    AllowedGlobal{"torch.BoolStorage", G::kStorageType, E::kBool},
    AllowedGlobal{"torch.UntypedStorage", G::kStorageType, E::kU8},
    AllowedGlobal{"torch.storage.UntypedStorage", G::kStorageType, E::kU8},
    AllowedGlobal{"torch.ComplexFloatStorage", G::kUnreadType},
    AllowedGlobal{"torch.ComplexDoubleStorage", G::kUnreadType},
    AllowedGlobal{"torch.QInt8Storage", G::kUnreadType},
    AllowedGlobal{"torch.QUInt8Storage", G::kUnreadType},
    AllowedGlobal{"torch.QInt32Storage", G::kUnreadType},
    AllowedGlobal{"torch.float64", G::kDType, E::kF64},
    AllowedGlobal{"torch.float32", G::kDType, E::kF32},
    AllowedGlobal{"torch.float16", G::kDType, E::kF16},
    AllowedGlobal{"torch.bfloat16", G::kDType, E::kBF16},
    AllowedGlobal{"torch.int64", G::kDType, E::kI64},
    AllowedGlobal{"torch.int32", G::kDType, E::kI32},
    AllowedGlobal{"torch.int16", G::kDType, E::kI16},
    AllowedGlobal{"torch.int8", G::kDType, E::kI8},
    AllowedGlobal{"torch.uint64", G::kDType, E::kU64},
    AllowedGlobal{"torch.uint32", G::kDType, E::kU32},
    AllowedGlobal{"torch.uint16", G::kDType, E::kU16},
    AllowedGlobal{"torch.uint8", G::kDType, E::kU8},
    AllowedGlobal{"torch.bool", G::kDType, E::kBool},
    AllowedGlobal{"torch.float8_e4m3fn", G::kUnreadType},
    AllowedGlobal{"torch.float8_e5m2", G::kUnreadType},
    AllowedGlobal{"torch.complex64", G::kUnreadType},
    AllowedGlobal{"torch.complex128", G::kUnreadType},
};

struct Opcode {
  uint8_t code;
  std::string_view name;
};

// Python's pickletools.opcodes.
constexpr std::array kOpcodes = {
    Opcode{'I', "INT"},
    Opcode{'J', "BININT"},
    Opcode{'K', "BININT1"},
    Opcode{'M', "BININT2"},
    Opcode{'L', "LONG"},
    Opcode{0x8A, "LONG1"},
    Opcode{0x8B, "LONG4"},
    Opcode{'S', "STRING"},
    Opcode{'T', "BINSTRING"},
    Opcode{'U', "SHORT_BINSTRING"},
    Opcode{'B', "BINBYTES"},
    Opcode{'C', "SHORT_BINBYTES"},
    Opcode{0x8E, "BINBYTES8"},
    Opcode{0x96, "BYTEARRAY8"},
    Opcode{0x97, "NEXT_BUFFER"},
    Opcode{0x98, "READONLY_BUFFER"},
    Opcode{'N', "NONE"},
    Opcode{0x88, "NEWTRUE"},
    Opcode{0x89, "NEWFALSE"},
    Opcode{'V', "UNICODE"},
    Opcode{0x8C, "SHORT_BINUNICODE"},
    Opcode{'X', "BINUNICODE"},
    Opcode{0x8D, "BINUNICODE8"},
    Opcode{'F', "FLOAT"},
    Opcode{'G', "BINFLOAT"},
    Opcode{']', "EMPTY_LIST"},
    Opcode{'a', "APPEND"},
    Opcode{'e', "APPENDS"},
    Opcode{'l', "LIST"},
    Opcode{')', "EMPTY_TUPLE"},
    Opcode{'t', "TUPLE"},
    Opcode{0x85, "TUPLE1"},
    Opcode{0x86, "TUPLE2"},
    Opcode{0x87, "TUPLE3"},
    Opcode{'}', "EMPTY_DICT"},
    Opcode{'d', "DICT"},
    Opcode{'s', "SETITEM"},
    Opcode{'u', "SETITEMS"},
    Opcode{0x8F, "EMPTY_SET"},
    Opcode{0x90, "ADDITEMS"},
    Opcode{0x91, "FROZENSET"},
    Opcode{'0', "POP"},
    Opcode{'2', "DUP"},
    Opcode{'(', "MARK"},
    Opcode{'1', "POP_MARK"},
    Opcode{'g', "GET"},
    Opcode{'h', "BINGET"},
    Opcode{'j', "LONG_BINGET"},
    Opcode{'p', "PUT"},
    Opcode{'q', "BINPUT"},
    Opcode{'r', "LONG_BINPUT"},
    Opcode{0x94, "MEMOIZE"},
    Opcode{0x82, "EXT1"},
    Opcode{0x83, "EXT2"},
    Opcode{0x84, "EXT4"},
    Opcode{'c', "GLOBAL"},
    Opcode{0x93, "STACK_GLOBAL"},
    Opcode{'R', "REDUCE"},
    Opcode{'b', "BUILD"},
    Opcode{'i', "INST"},
    Opcode{'o', "OBJ"},
    Opcode{0x81, "NEWOBJ"},
    Opcode{0x92, "NEWOBJ_EX"},
    Opcode{0x80, "PROTO"},
    Opcode{'.', "STOP"},
    Opcode{0x95, "FRAME"},
    Opcode{'P', "PERSID"},
    Opcode{'Q', "BINPERSID"},
};

}  // namespace

int FindAllowedGlobal(std::string_view module, std::string_view name) {
  for (size_t i = 0; i < kAllowed.size(); ++i) {
    const std::string_view allowed = kAllowed[i].name;
    if (allowed.size() == module.size() + 1 + name.size() && allowed.starts_with(module) &&
        allowed[module.size()] == '.' && allowed.ends_with(name)) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

const AllowedGlobal& AllowedGlobalAt(int index) { return kAllowed[static_cast<size_t>(index)]; }

std::string_view PickleOpcodeName(uint8_t opcode) {
  for (const Opcode& known : kOpcodes) {
    if (known.code == opcode) return known.name;
  }
  return {};
}

}  // namespace crema
