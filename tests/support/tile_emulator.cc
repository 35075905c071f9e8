#include "support/tile_emulator.h"

#include <atomic>
#include <cstring>

#include "support/tile_stand_in.h"

#if defined(__x86_64__) && defined(__linux__)
#include <ucontext.h>

#include <csignal>
#endif

namespace crema::test {
namespace {
std::atomic<int64_t> executed{0};
}  // namespace

int64_t TileEmulator::Executed() { return executed; }

#if defined(__x86_64__) && defined(__linux__)

namespace {

// By their numbers in instructions.
constexpr int kRegisters[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                              REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                              REG_R12, REG_R13, REG_R14, REG_R15};
constexpr int kNoIndex = 4;  // in a SIB byte, as is "a SIB byte follows" in ModRM

template <typename T>
T Read(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// VEX.128.pp.0F38.W0: opcode, ModRM, SIB and displacement (Software Developer's Manual, volume 2).
struct Instruction {
  Instruction(const uint8_t* code, const greg_t* registers) : known(IsTilePrefix(code)) {
    if (!known) return;
    // The high bits of register numbers are inverted.
    const int high_reg = (code[1] & 0x80) != 0 ? 0 : 8, high_index = (code[1] & 0x40) != 0 ? 0 : 8;
    const int high_base = (code[1] & 0x20) != 0 ? 0 : 8;
    prefix = code[2] & 3;
    second = ~(code[2] >> 3) & 15;
    opcode = code[3];
    mode = code[4] >> 6;
    reg = (code[4] >> 3 & 7) + high_reg;
    rm = code[4] & 7;
    length = 5;
    if (mode == 3) return;
    int64_t base = 0;
    if (rm == kNoIndex) {
      const uint8_t sib = code[length++];
      const int index = (sib >> 3 & 7) + high_index;
      // Without a base it is an address of 32 bits, which compilers do not emit here.
      known = mode != 0 || (sib & 7) != 5;
      has_stride = true;
      base = registers[kRegisters[(sib & 7) + high_base]];
      if (index != kNoIndex) stride = registers[kRegisters[index]] << (sib >> 6);
    } else if (rm == 5 && mode == 0) {  // after the instruction
      length += 4;
      address = reinterpret_cast<int64_t>(code) + length + Read<int32_t>(code + 5);
      return;
    } else {
      base = registers[kRegisters[rm + high_base]];
    }
    address = base;
    if (mode == 1) address += Read<int8_t>(code + length);
    if (mode == 2) address += Read<int32_t>(code + length);
    length += mode == 1 ? 1 : mode == 2 ? 4 : 0;
  }

  static bool IsTilePrefix(const uint8_t* code) {
    return code[0] == 0xC4 && (code[1] & 31) == 2 && (code[2] & 0x84) == 0;
  }
  void* memory() const { return reinterpret_cast<void*>(address); }

  bool known, has_stride = false;
  int prefix = 0, second = 0, opcode = 0, mode = 0, reg = 0, rm = 0;
  int64_t address = 0, stride = 0;
  int length = 0;
};

bool Execute(const Instruction& i) {
  constexpr int kNone = 0, kF3 = 2, kF2 = 3;
  TileUnit& unit = TileUnit::OfThisThread();
  const bool registers = i.mode == 3;
  if (i.opcode == 0x49 && i.prefix == kNone && i.reg == 0) {
    registers ? unit.Release()
              : unit.LoadConfig(*static_cast<const bf16_gradient::TileConfig*>(i.memory()));
  } else if (i.opcode == 0x49 && i.prefix == kF2 && registers) {
    unit.Zero(i.reg);
  } else if (i.opcode == 0x4B && i.prefix == kF2 && i.has_stride) {
    unit.Load(i.reg, i.memory(), i.stride);
  } else if (i.opcode == 0x4B && i.prefix == kF3 && i.has_stride) {
    unit.Store(i.reg, i.memory(), i.stride);
  } else if (i.opcode == 0x5C && i.prefix == kF3 && registers) {
    unit.MultiplyBF16(i.reg, i.rm, i.second);
  } else {
    return false;
  }
  return true;
}

void OnFault(int signal, siginfo_t*, void* context) {
  greg_t* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto* code = reinterpret_cast<const uint8_t*>(registers[REG_RIP]);
  const Instruction instruction(code, registers);
  if (!instruction.known || !Execute(instruction)) {
    std::signal(signal, SIG_DFL);  // it faults again, and that is the end
    return;
  }
  ++executed;
  registers[REG_RIP] += instruction.length;
}

}  // namespace

struct TileEmulator::Before {
  struct sigaction action = {};
};

TileEmulator::TileEmulator() : before_(std::make_unique<Before>()) {
  executed = 0;
  struct sigaction action = {};
  action.sa_sigaction = OnFault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGILL, &action, &before_->action);
}
TileEmulator::~TileEmulator() { sigaction(SIGILL, &before_->action, nullptr); }

#else

struct TileEmulator::Before {};
TileEmulator::TileEmulator() = default;
TileEmulator::~TileEmulator() = default;

#endif

}  // namespace crema::test
