// Runs code on a thread whose stack is small.
#pragma once

#include <gtest/gtest.h>
#include <pthread.h>

#include <cstddef>
#include <functional>

namespace crema::test {

// Calls body() on a thread with a stack of `bytes` and waits for its end; a body that needs more
// ends the process. Under sanitizers, whose frames are larger, the stack is that of any thread.
inline void OnSmallStack(size_t bytes, const std::function<void()>& body) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
#ifndef CREMA_SANITIZED
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, bytes), 0);
#else
  static_cast<void>(bytes);
#endif
  const auto run = [](void* argument) -> void* {
    (*static_cast<const std::function<void()>*>(argument))();
    return nullptr;
  };
  pthread_t thread{};
  ASSERT_EQ(pthread_create(&thread, &attributes, run, const_cast<std::function<void()>*>(&body)),
            0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  ASSERT_EQ(pthread_attr_destroy(&attributes), 0);
}

}  // namespace crema::test
