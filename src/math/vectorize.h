// One binary for every x86-64: hot loops are compiled several times, and the CPU picks at load
// time.
#pragma once

// Put before a function with a hot loop. Everything that it calls in the loop must be inlined into
// it. Sanitizers run before the resolvers are ready, so there one version remains. Levels (from GCC
// 12 on) and not models of processors: a model is only found by its name, so that all newer ones
// would get the slowest version.
#if defined(__x86_64__) && defined(__GNUC__) && __GNUC__ >= 12 && !defined(__clang__) && \
    !defined(CREMA_SANITIZED)
#define CREMA_MULTIVERSION \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CREMA_MULTIVERSION
#endif
