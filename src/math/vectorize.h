// One binary for every x86-64: hot loops are compiled several times, and the CPU picks at load time.
#pragma once

// Put before a function with a hot loop. Everything that it calls in the loop must be inlined into
// it. Sanitizers run before the resolvers are ready, so there one version remains.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(CREMA_SANITIZED)
#define CREMA_MULTIVERSION \
  __attribute__((target_clones("arch=skylake-avx512", "arch=haswell", "default")))
#else
#define CREMA_MULTIVERSION
#endif
