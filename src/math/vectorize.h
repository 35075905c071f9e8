// One binary for every x86-64 processor: hot loops are compiled for several levels, and one is
// chosen when the program is loaded.
#pragma once

// Put before a function with a hot loop. Everything that the loop calls must be inlined into it.
// Sanitizers start before the resolvers can run, so their builds have one version. Uses levels
// (from GCC 12 on) and not processor models: a model is matched by its name only, so newer ones
// would get the slowest version.
#if defined(__x86_64__) && defined(__GNUC__) && __GNUC__ >= 12 && !defined(__clang__) && \
    !defined(CREMA_SANITIZED)
#define CREMA_MULTIVERSION \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CREMA_MULTIVERSION
#endif
